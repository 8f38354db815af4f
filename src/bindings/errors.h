// SPDX-License-Identifier: Apache-2.0
// Errors at the Python door: a DataFault becomes the exception of the module that documents it, any other
// code the built-in exception that fits. Needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/result.h"

namespace stoker::bindings {

inline PyObject* builtin_exception(Code code) {
  switch (code) {
    case Code::kNotFound:
      return PyExc_FileNotFoundError;
    case Code::kDenied:
      return PyExc_PermissionError;
    case Code::kUnavailable:
    case Code::kNoSpace:
      return PyExc_OSError;
    case Code::kDeadline:
      return PyExc_TimeoutError;
    case Code::kNoMemory:
      return PyExc_MemoryError;
    case Code::kInternal:
    case Code::kCancelled:
      return PyExc_RuntimeError;
    default:
      return PyExc_ValueError;
  }
}

// `of_container`: what is damaged is an archive or a record file, whatever the kind says.
[[noreturn]] inline void raise(const Error& error, bool of_container = false) {
  namespace nb = nanobind;
  if (error.code == Code::kNoSpace && !error.fault) {
    nb::object message = nb::steal(PyUnicode_DecodeFSDefault(error.message.c_str()));
    PyErr_SetObject(PyExc_OSError, nb::make_tuple(int{ENOSPC}, message).ptr());
    throw nb::python_error();
  }
  if (!error.fault) {
    PyErr_SetString(builtin_exception(error.code), error.message.c_str());
    throw nb::python_error();
  }
  const DataFault& fault = *error.fault;
  bool of_folder = fault.kind == "no_classes" || fault.kind == "empty_class" || fault.kind == "link_loop";
  of_container = of_container || fault.kind == "not_tar" || fault.kind == "duplicate_field" ||
                 fault.kind == "corrupt_length" || fault.kind == "corrupt_data";
  nb::object type = of_folder      ? nb::module_::import_("stoker.data.source").attr("FolderError")
                    : of_container ? nb::module_::import_("stoker.data.containers").attr("ContainerError")
                                   : nb::module_::import_("stoker.data.image").attr("ImageError");
  nb::object path =
      nb::steal(PyUnicode_DecodeFSDefaultAndSize(fault.path.data(), Py_ssize_t(fault.path.size())));
  nb::object message =
      nb::steal(PyUnicode_DecodeFSDefaultAndSize(error.message.data(), Py_ssize_t(error.message.size())));
  nb::object offset = fault.offset >= 0 ? nb::cast(fault.offset) : nb::none();
  nb::object value = of_folder ? type(message, fault.kind, path) : type(message, fault.kind, path, offset);
  PyErr_SetObject(type.ptr(), value.ptr());
  throw nb::python_error();
}

// The value of a Result, or its error raised.
template <typename T>
T value_or_raise(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(result).value();
}
inline void check_or_raise(const Status& status) {
  if (!status.ok()) raise(status.error());
}

}  // namespace stoker::bindings
