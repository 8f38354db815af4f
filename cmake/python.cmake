# SPDX-License-Identifier: Apache-2.0
# The Python extension stoker._native: one file of src/bindings per room that Python sees. It may link only what is
# listed here (ARCHITECTURE.md): TensorFlow exports its own gRPC, protobuf and OpenSSL into the process.
# Interpreter: -DPython_EXECUTABLE=…, an activated environment ($VIRTUAL_ENV), or the one that tools/setup makes.
if(NOT Python_EXECUTABLE AND NOT DEFINED ENV{VIRTUAL_ENV} AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
endif()
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(
  COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT RESULT_VARIABLE missing)
if(missing)
  set(problem "${Python_EXECUTABLE} has no nanobind: pip install nanobind, or -DSTOKER_PYTHON=OFF")
  if(NOT STOKER_DEV)
    message(FATAL_ERROR "${problem}")
  endif()
  message(WARNING "${problem}. Going on without the extension.")
  return()
endif()
find_package(nanobind CONFIG REQUIRED)

file(GLOB bindings CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/bindings/*.cc)
nanobind_add_module(_native NOMINSIZE ${bindings})
target_link_libraries(_native PRIVATE ${STOKER_BINDING_ROOMS} pixel_shared)
install(TARGETS _native LIBRARY DESTINATION stoker)
if(STOKER_DEV)
  add_custom_command(TARGET _native POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:_native> ${CMAKE_SOURCE_DIR}/python/stoker/
    COMMENT "Copying _native into python/stoker")
endif()
