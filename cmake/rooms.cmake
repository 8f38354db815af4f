# SPDX-License-Identifier: Apache-2.0
# The rooms, in the order the data meets them. What each may include: tools/layers.py.
room(base LIBS Threads::Threads)
room(image DEPS base)
room(pipeline DEPS image)
room(wire DEPS base)
room(feed DEPS wire pipeline)
room(http DEPS base)
room(telemetry DEPS base)
room(agent DEPS base http telemetry)
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/control/catalogue.cc PROPERTIES
  COMPILE_DEFINITIONS STOKER_INSTANCE_TYPES="${CMAKE_SOURCE_DIR}/src/control/instance-types.json"
  OBJECT_DEPENDS ${CMAKE_SOURCE_DIR}/src/control/instance-types.json)
room(control DEPS http agent LIBS sqlite_static)
room(api DEPS control telemetry)
room(cli DEPS http)
