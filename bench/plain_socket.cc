// SPDX-License-Identifier: Apache-2.0
// What a plain TCP socket costs on loopback: the bound that bench/transport_tcp_u8.py compares ours with.
//
// A child process sends rows of 224x224x3 bytes out of a block larger than the caches, 16 at a time; this one
// receives them in place into three batches of 64 in turn. Nothing is framed, hashed or looked at. Prints
// what bench/measure.py prints; an item is 10^9 bytes, CPU is that of both processes.
//
//   plain_socket [--congestion reno] [--rows 1728] [--seconds 2] [--windows 3] [--warmup 2]
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace {

constexpr size_t kRow = 224 * 224 * 3;
constexpr size_t kBatch = 64 * kRow;
constexpr size_t kRowsPerSend = 16;
constexpr size_t kReceiveLimit = 1 << 20;

[[noreturn]] void fail(const char* what) {
  perror(what);
  exit(1);
}

double seconds(clockid_t clock) {
  timespec now;
  if (clock_gettime(clock, &now) != 0) fail("clock_gettime");
  return now.tv_sec + now.tv_nsec * 1e-9;
}

void set_congestion(int fd, const std::string& name) {
  if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), name.size()) != 0) fail(name.c_str());
}

void send_for_ever(int fd, size_t count) {
  std::vector<uint8_t> rows(count * kRow);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
  for (size_t row = 0;; row = (row + kRowsPerSend) % count) {
    const uint8_t* data = rows.data() + row * kRow;
    for (size_t left = kRowsPerSend * kRow; left > 0;) {
      const ssize_t sent = send(fd, data, left, MSG_NOSIGNAL);
      if (sent <= 0) return;
      data += sent;
      left -= static_cast<size_t>(sent);
    }
  }
}

void receive_batch(int fd, std::vector<uint8_t>& slot) {
  for (size_t done = 0; done < kBatch;) {
    const ssize_t got = recv(fd, slot.data() + done, std::min(kBatch - done, kReceiveLimit), 0);
    if (got <= 0) fail("recv");
    done += static_cast<size_t>(got);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string congestion = "reno";
  double window_s = 2, warmup_s = 2;
  int windows = 3;
  size_t rows = 1728;  // 260 MB; a multiple of kRowsPerSend
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--congestion") congestion = argv[i + 1];
    if (name == "--rows")
      rows = std::max<size_t>(1, strtoul(argv[i + 1], nullptr, 10) / kRowsPerSend) * kRowsPerSend;
    if (name == "--seconds") window_s = atof(argv[i + 1]);
    if (name == "--windows") windows = atoi(argv[i + 1]);
    if (name == "--warmup") warmup_s = atof(argv[i + 1]);
  }

  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener, 1) != 0)
    fail("listen");
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  set_congestion(listener, congestion);

  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    const int fd = accept(listener, nullptr, nullptr);
    if (fd < 0) _exit(1);
    set_congestion(fd, congestion);
    send_for_ever(fd, rows);
    _exit(0);
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  set_congestion(fd, congestion);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");

  clockid_t child_clock;
  if (clock_getcpuclockid(child, &child_clock) != 0) fail("clock_getcpuclockid");
  const auto cpu = [&] { return seconds(CLOCK_PROCESS_CPUTIME_ID) + seconds(child_clock); };

  std::vector<std::vector<uint8_t>> slots(3, std::vector<uint8_t>(kBatch, 1));
  size_t turn = 0;
  const double begin = seconds(CLOCK_MONOTONIC);
  do receive_batch(fd, slots[turn++ % slots.size()]);
  while (seconds(CLOCK_MONOTONIC) - begin < warmup_s);

  double items = 0, least_cpu = 1e9, least_wall = 1e9;
  for (int window = 0; window < windows; ++window) {
    const double start = seconds(CLOCK_MONOTONIC), start_cpu = cpu();
    double gigabytes = 0, wall = 0;
    while (wall < window_s) {
      receive_batch(fd, slots[turn++ % slots.size()]);
      gigabytes += kBatch / 1e9;
      wall = seconds(CLOCK_MONOTONIC) - start;
    }
    items += gigabytes;
    least_cpu = std::min(least_cpu, (cpu() - start_cpu) / gigabytes);
    least_wall = std::min(least_wall, wall / gigabytes);
  }
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  close(fd);  // the child's send fails and it leaves
  waitpid(child, nullptr, 0);
  printf(
      "{\"items\": %.3f, \"cpu_s_per_item\": %.4f, \"wall_s_per_item\": %.4f, \"rss_mb\": %ld, \"note\": "
      "\"%s\"}\n",
      items, least_cpu, least_wall, usage.ru_maxrss / 1024, congestion.c_str());
  return 0;
}
