# SPDX-License-Identifier: Apache-2.0
# room(NAME DEPS other rooms… LIBS third-party targets…)
#
# One call per room of docs/design: src/NAME/**/*.cc becomes the static library `NAME_room`, its *_test.cc the test
# program `NAME_test`. What a room may include is the table in tools/layers.py; DEPS says only what it links.
# Files named *_avx2.cc and *_avx512.cc are compiled for that instruction set and picked at run time.
function(room name)
  cmake_parse_arguments(ROOM "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|probe)\\.cc$")
  foreach(file ${sources})
    if(file MATCHES "_avx2\\.cc$")
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "-mavx2;-mbmi2")
    elseif(file MATCHES "_avx512\\.cc$")
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
        "-Wno-maybe-uninitialized;-mavx2;-mbmi2;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vbmi;-mavx512vnni")
    endif()
  endforeach()
  add_library(${name}_room STATIC ${sources})
  target_include_directories(${name}_room PUBLIC ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM ROOM_DEPS APPEND _room)
  target_link_libraries(${name}_room PUBLIC ${ROOM_DEPS} ${ROOM_LIBS})
  if(STOKER_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${name}_room pixel_shared GTest::gtest GTest::gmock GTest::gtest_main)
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES TIMEOUT 300)
  endif()
endfunction()
