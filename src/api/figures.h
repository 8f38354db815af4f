// SPDX-License-Identifier: Apache-2.0
// Reads what a job measured (its record, metrics/ and telemetry/ of its folder; docs/formats/telemetry.md)
// into the figures that compare and advise compute with.
#pragma once

#include <string>

#include "control/figures.h"
#include "control/store.h"

namespace stoker::api {

// The measured window runs from the first telemetry line in which a step is complete to the last line, so
// that starting up is not in it. Errors say what the job lacks.
// Whether accelerators were emulated is the record's to say, not the folder's.
Result<control::JobFigures> read_figures(const control::StoredJob& job, const std::string& job_folder);

}  // namespace stoker::api
