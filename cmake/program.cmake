# SPDX-License-Identifier: Apache-2.0
# The one binary. It needs libc and libm of the machine and nothing else, so that a wheel can carry it anywhere.
# Debian's static archives are not all position-independent.
add_executable(stoker src/main.cc)
set_target_properties(stoker PROPERTIES POSITION_INDEPENDENT_CODE OFF)
target_link_libraries(stoker PRIVATE api_room cli_room agent_room feed_room pixel_static)
target_link_options(stoker PRIVATE -no-pie -static-libstdc++ -static-libgcc)
if(SKBUILD)
  install(TARGETS stoker RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR})
else()
  install(TARGETS stoker RUNTIME DESTINATION bin)
endif()
