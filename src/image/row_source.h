// SPDX-License-Identifier: Apache-2.0
// Where a resize takes its rows from: a decoded picture, or a JPEG that is decoded as it goes. Confined.
#pragma once

#include "base/bytes.h"
#include "base/result.h"
#include "image/stored_picture.h"
#include "image/view.h"
#include "image/workspace.h"

namespace stoker::image {

class RowSource {
 public:
  virtual ~RowSource() = default;
  // Points rows[0 … n) at the next rows, n <= kRowBatch and <= count; fewer only at the end. Each row stays
  // as it is until `keep` more have been asked for, and may be read kSlack bytes past its end.
  virtual Result<int> next(const uint8_t** rows, int count) = 0;
  // After the last row.
  virtual Status finish() = 0;
};

// Rows of a picture in memory.
class ViewRows final : public RowSource {
 public:
  // `keep` as above. Errors if there is no memory for the last rows' slack.
  static Result<ViewRows> open(const ImageView& view, Workspace& workspace);
  Result<int> next(const uint8_t** rows, int count) override;
  Status finish() override { return ok(); }

 private:
  ImageView view_;
  int at_ = 0;
  int padded_from_ = 0;  // rows from here on are copies with slack
  const uint8_t* padded_ = nullptr;
  size_t padded_stride_ = 0;
};

// Rows of a region of a JPEG. Leaves the workspace's reader closed however it ends.
class JpegRows final : public RowSource {
 public:
  static Result<JpegRows> open(const StoredPicture& picture, const Box& region, int keep,
                               Workspace& workspace);
  JpegRows(JpegRows&& other) noexcept;
  ~JpegRows() override;
  Result<int> next(const uint8_t** rows, int count) override;
  Status finish() override;

 private:
  JpegRows() = default;
  Workspace::Parts* parts_ = nullptr;  // null once moved from
  uint8_t* ring_ = nullptr;
  size_t stride_ = 0;
  int slots_ = 0;
  int at_ = 0;
  size_t lead_ = 0;
};

}  // namespace stoker::image
