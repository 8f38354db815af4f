# SPDX-License-Identifier: Apache-2.0
# Third-party libraries. Each is here because docs/decisions/dependencies.md says why.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
find_path(BOOST_INCLUDE boost/json.hpp REQUIRED)

# libjpeg-turbo, libpng and libwebp are linked twice: shared into the Python extension (Debian's archives are not PIC, and
# auditwheel bundles the shared ones), static into the executable, so that a wheel's program needs nothing beside it.
add_library(pixel_shared INTERFACE)
target_link_libraries(pixel_shared INTERFACE jpeg png16 z webpdemux webp)
find_library(JPEG_STATIC libjpeg.a REQUIRED)
find_library(PNG_STATIC libpng16.a REQUIRED)
find_library(ZLIB_STATIC libz.a REQUIRED)
find_library(WEBP_STATIC libwebp.a REQUIRED)
find_library(WEBPDEMUX_STATIC libwebpdemux.a REQUIRED)
add_library(pixel_static INTERFACE)
target_link_libraries(pixel_static INTERFACE ${JPEG_STATIC} ${PNG_STATIC} ${ZLIB_STATIC} ${WEBPDEMUX_STATIC} ${WEBP_STATIC} Threads::Threads m)

find_library(SQLITE_STATIC libsqlite3.a REQUIRED)
add_library(sqlite_static INTERFACE)
target_link_libraries(sqlite_static INTERFACE ${SQLITE_STATIC} Threads::Threads ${CMAKE_DL_LIBS} m)
