# SPDX-License-Identifier: Apache-2.0
# The rooms, in the order the data meets them. What each may include: tools/layers.py.
room(base LIBS Threads::Threads)
room(image DEPS base)
room(pipeline DEPS image)
room(wire DEPS base)
room(feed DEPS wire)
room(http DEPS base)
room(telemetry DEPS base)
room(agent DEPS base http telemetry)
