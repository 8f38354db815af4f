// SPDX-License-Identifier: Apache-2.0
// image_probe FOLDER [seconds [ISA/WORK]]: CPU milliseconds a picture on one thread, per instruction set and
// kind of work, over all files of the folder, which are read first. One JSON line each, for tuning and as
// bounds beside the benchmarks.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "image/coefficients.h"
#include "image/image.h"
#include "image/scan_index.h"
#include "image/workspace_parts.h"

namespace {

using namespace stoker;
using namespace stoker::image;

// In memory, as a store would give them.
class InMemory final : public KeptCoefficients {
 public:
  explicit InMemory(MadeCoefficients made) : made_(std::move(made)) {
    made_.bytes.resize(made_.bytes.size() + kCoefficientSlack);
  }
  ByteView head() const override { return ByteView(made_.bytes).first(made_.head); }
  const uint8_t* read(size_t from, size_t) override { return &made_.bytes[made_.head + from]; }
  size_t bytes() const { return made_.bytes.size(); }

 private:
  MadeCoefficients made_;
};

struct Picture {
  std::vector<uint8_t> data;
  std::vector<uint8_t> index;
  std::shared_ptr<InMemory> kept;  // shared: pictures are copied into a vector
  ResizedCrop params;
};

double cpu_s() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// As torchvision's RandomResizedCrop(224) draws it.
ResizedCrop random_crop(Size size, std::mt19937& random) {
  std::uniform_real_distribution<double> unit(0, 1);
  double area = double(size.width) * size.height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    double target = area * (0.08 + 0.92 * unit(random));
    double ratio = std::exp(std::log(0.75) + unit(random) * (std::log(4.0 / 3) - std::log(0.75)));
    int width = int(std::lround(std::sqrt(target * ratio)));
    int height = int(std::lround(std::sqrt(target / ratio)));
    if (width < 1 || height < 1 || width > size.width || height > size.height) continue;
    Box crop{int(unit(random) * (size.width - width + 1)), int(unit(random) * (size.height - height + 1)),
             width, height};
    return {.crop = crop, .size = {224, 224}, .flip = unit(random) < 0.5};
  }
  return {.crop = {0, 0, size.width, size.height}, .size = {224, 224}};
}

std::vector<Picture> load(const std::string& folder, Workspace& workspace) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::mt19937 random(1);
  std::vector<Picture> pictures;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    Picture picture;
    picture.data.assign(std::istreambuf_iterator<char>(in), {});
    auto header = read_header(picture.data);
    if (!header.ok()) continue;
    picture.params = random_crop(header->size(), random);
    picture.index = make_scan_index(picture.data, workspace).value_or(std::vector<uint8_t>());
    if (auto made = make_coefficients(picture.data, 0, workspace)) {
      picture.kept = std::make_shared<InMemory>(std::move(*made));
    }
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: image_probe FOLDER [seconds in all [ISA/WORK]]\n");
    return 64;
  }
  Workspace workspace;
  std::vector<Picture> pictures = load(argv[1], workspace);
  double seconds = argc > 2 ? std::atof(argv[2]) : 20.0;
  if (pictures.empty()) {
    std::fprintf(stderr, "no pictures in %s\n", argv[1]);
    return 1;
  }
  NormalizeTable table(ToFloat::kMultiply, MeanStd{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}});
  constexpr size_t kBatch = 64;
  std::vector<float> floats(kBatch * 3 * 224 * 224);
  std::vector<uint8_t> bytes(kBatch * 3 * 224 * 224);

  using Work = std::function<bool(const Picture&, size_t)>;
  const std::pair<const char*, Work> works[] = {
      {"whole", [&](const Picture& p, size_t) { return decode_rgb(p.data, workspace).ok(); }},
      {"region",
       [&](const Picture& p, size_t) { return decode_region(p.data, p.params.crop, workspace).ok(); }},
      {"make_index",
       [&](const Picture& p, size_t) { return make_scan_index(p.data, workspace).has_value(); }},
      {"indexed_f32",
       [&](const Picture& p, size_t row) {
         return decode_resized_crop({p.data, p.index}, p.params,
                                    ChwFloats{&floats[row * 3 * 224 * 224], &table}, workspace)
             .ok();
       }},
      {"make_coefficients",
       [&](const Picture& p, size_t) { return make_coefficients(p.data, 0, workspace).has_value(); }},
      {"kept_f32",
       [&](const Picture& p, size_t row) {
         return p.kept && decode_resized_crop(StoredPicture(*p.kept), p.params,
                                              ChwFloats{&floats[row * 3 * 224 * 224], &table}, workspace)
                              .ok();
       }},
      {"fused_u8",
       [&](const Picture& p, size_t row) {
         return decode_resized_crop(p.data, p.params, HwcBytes{&bytes[row * 3 * 224 * 224]}, workspace).ok();
       }},
      {"fused_f32",
       [&](const Picture& p, size_t row) {
         return decode_resized_crop(p.data, p.params, ChwFloats{&floats[row * 3 * 224 * 224], &table},
                                    workspace)
             .ok();
       }},
  };
  // In turns, so that a busy minute of the machine meets all of them; of each picture the smallest round
  // counts.
  struct Line {
    std::string isa;
    std::string name;
    const Kernels* kernels;
    const Work* work;
    std::vector<double> best_s;
    size_t failed = 0;
  };
  std::vector<Line> lines;
  for (const char* isa : {"avx512", "avx2", "scalar"}) {
    const Kernels* kernels = kernels_of(*isa == 's'     ? Isa::kScalar
                                        : isa[3] == '2' ? Isa::kAvx2
                                                        : Isa::kAvx512);
    for (const auto& [name, work] : works) {
      if (kernels == nullptr) continue;
      bool decodes_only = !std::string(name).ends_with("32") && !std::string(name).ends_with("u8");
      std::string line_isa = decodes_only && *isa == 's' ? "libjpeg" : isa;  // see jpeg_reader.h
      if (argc > 3 && line_isa + "/" + name != argv[3]) continue;
      lines.push_back({line_isa, name, kernels, &work, std::vector<double>(pictures.size(), 1e9)});
    }
  }
  double began = cpu_s();
  do {
    for (Line& line : lines) {
      workspace.parts().kernels = line.kernels;
      double start = cpu_s();
      for (size_t i = 0; i < pictures.size(); ++i) {
        line.failed += !(*line.work)(pictures[i], i % kBatch);
        double end = cpu_s();
        line.best_s[i] = std::min(line.best_s[i], end - start);
        start = end;
      }
    }
  } while (cpu_s() - began < seconds);
  for (const Line& line : lines) {
    double mean = std::accumulate(line.best_s.begin(), line.best_s.end(), 0.0) / double(pictures.size());
    std::printf("{\"work\":\"%s\",\"isa\":\"%s\",\"ms\":%.4f,\"pictures\":%zu,\"failed\":%zu}\n",
                line.name.c_str(), line.isa.c_str(), mean * 1e3, pictures.size(), line.failed);
  }
}
