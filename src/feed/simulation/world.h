// SPDX-License-Identifier: Apache-2.0
// The world of one schedule: fake time, a fake network, worker processes and the dispatcher. Decisions are
// the production's: Membership here, an Assigner in each Rank. Confined.
//
// A connection delivers in order, both ways, or ends. A partition, or a process that is stopped, holds what
// is sent; it arrives later unless the side that dialled has given the connection up as silent, as Dialer
// does.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "feed/assign.h"
#include "feed/membership.h"
#include "feed/simulation/schedule.h"
#include "feed/sizing.h"

namespace stoker::feed::simulation {

class Rank;

enum class Say : uint8_t {
  kRequest,
  kRows,
  kError,
  kCancel,
  kCancelled,
  kGoodbye,
  kRegister,
  kSubscribe,
  kPing,
  kView,
  kClosed
};
struct Message {
  Say say = Say::kPing;
  bool retry = false;
  bool corrupt = false;
  int fault = -1;  // that this message is
  uint32_t request = 0;
  RangeId range;
  uint32_t position = 0, rows = 0;
  uint64_t value = 0;      // of an answer: the sum of its rows' bytes
  uint64_t addresses = 0;  // of a view: a bit each
};

enum class Kind : uint8_t { kDispatcher, kRank, kWorker };
struct Place {  // of a process on the network; a worker's is its address and outlives it
  Kind kind = Kind::kDispatcher;
  uint32_t index = 0;
  bool operator==(const Place&) const = default;
};

struct Tally {  // of what has been seen to happen
  uint64_t decides = 0, timed_decides = 0, asked = 0, hedged = 0, lent = 0, again = 0, cancelled = 0;
  uint64_t lost = 0, views = 0, events = 0, give_ups = 0, failed_batches = 0, grown = 0, shrunk = 0;
  int64_t simulated_ns = 0;
  void add(const Tally& other);
  std::string text() const;
};

class World {
 public:
  World(const Schedule& schedule, bool verbose);
  ~World();
  // True: everything was delivered and nothing was wrong; breach() says what was otherwise.
  bool run();
  const std::string& breach() const { return breach_; }
  const std::vector<Fault>& faults() const { return faults_; }
  const Tally& tally() const { return tally_; }

  // For ranks.
  static constexpr uint32_t kNone = ~0U;
  const Schedule& schedule() const { return schedule_; }
  int64_t now() const { return now_; }
  Random& random() { return random_; }
  Tally& tally() { return tally_; }
  void wrong(const std::string& what);
  void say(const std::string& what) const;
  bool verbose() const { return verbose_; }
  void hit(int fault) {
    if (fault >= 0) faults_[static_cast<size_t>(fault)].hit = true;
  }
  void hit(FaultKind kind);
  uint32_t dial(Place owner, Place target);  // a dialer
  void stop_dialing(uint32_t dialer);
  void send(uint32_t connection, bool from_dialer, Message message);
  void close(uint32_t connection, bool by_dialer);
  void drop(uint32_t connection);  // the dialler ends it and dials again
  uint32_t dialer_of(uint32_t connection) const { return connections_[connection].dialer; }
  uint32_t start_kid(uint32_t rank);
  uint32_t start_spare(uint32_t rank);
  void kill_kid(uint32_t process, int64_t delay_ns);
  bool hangs(uint32_t connection) const;      // whoever is at its far end
  bool works_for(uint32_t connection) const;  // whoever is at its far end is alive, running and reached
  int end_fault(uint32_t connection) const;   // that ended who is at its far end
  int join_fault(uint32_t connection) const;
  void wake_rank(uint32_t rank, uint32_t serial, int64_t at);
  void probe_rank(uint32_t rank, uint32_t serial, int64_t at);
  void consume_at(uint32_t rank, int64_t at);
  void counted() { ++counted_; }
  void taken(uint32_t rank, uint32_t position, uint32_t rows, bool failed);
  void gave_up() { give_up_ = true; }
  uint64_t expected(uint32_t position, uint32_t rows) const;

 private:
  enum class What : uint8_t {
    kDeliver,
    kDial,
    kUp,
    kNoAnswer,
    kSilence,
    kFinish,
    kContinue,
    kHeal,
    kWake,
    kProbe,
    kConsume,
    kReport,
    kPing,
    kTick,
    kRestart,
    kKidReady,
    kKidDead,
    kDispatcherBack,
    kAgain,
    kRankOn,
    kSpareOn,
    kDrained,
    kWatch
  };
  struct Event {
    int64_t at;
    uint64_t order;
    What what;
    uint32_t a, b;
    bool operator>(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct Travelling {
    Message message;
    uint32_t connection;
    bool from_dialer;
  };
  struct Connection {
    uint32_t dialer = kNone;
    Place near;  // who dialled
    Place far;
    uint32_t process = kNone;   // the worker process at the far end, or the near one of the dispatcher's
    bool up[2] = {true, true};  // near, far
    int64_t made_ns = 0;
    int64_t ended_ns = 0;  // when its dialler ended it
    int64_t last_ns[2] = {0, 0};
    std::deque<Message> held[2];  // by direction: to far, to near
    uint32_t serial = 0;
  };
  struct Dialer {
    Place owner, target;
    uint32_t process = kNone;  // that dials, when it is a worker
    uint32_t connection = kNone;
    int64_t pause_ns = 0;
    uint32_t serial = 0;
    bool stopped = false;
  };
  struct Job {
    uint32_t connection = kNone;
    Message request;
    uint64_t arrival = 0;
    bool busy = false;
    int64_t work_ns = 0;
  };
  struct Process {
    uint32_t address = kNone;
    uint32_t rank = kNone;  // whose child it is
    bool spare = false;     // as a spare worker
    Machine machine;
    bool alive = true;
    bool reachable = true;  // not: its machine has vanished
    bool draining = false;
    bool hangs = false;
    bool paused = false;
    int64_t reports_at_ns = 0;
    uint64_t made = 0;  // rows
    double cpu_s = 0;   // for them
    int pause_fault = -1, corrupt_fault = -1, duplicate_fault = -1, end_fault = -1, join_fault = -1;
    uint32_t dialer = kNone;      // to the dispatcher
    uint32_t connection = kNone;  // of a child
    std::vector<Job> hands;
    std::vector<Job> waiting;
    std::vector<uint32_t> deferred;  // hands that finished while it was stopped
  };
  struct Cut {
    Place a, b;
    bool whole = false;  // a from everybody
    int fault = -1;
    bool active = true;
    int64_t slow_ns = 0;  // not cut, but slow
    bool concerns(Place one, Place two) const {
      if (whole) return one == a || two == a;
      return (one == a && two == b) || (one == b && two == a);
    }
  };

  // world.cc
  uint32_t rank_of(uint32_t position) const;
  void start_dispatcher();
  void at(int64_t when, What what, uint32_t a = 0, uint32_t b = 0);
  void handle(const Event& event);
  uint32_t rank_concerned(const Event& event) const;  // which does it; kNone: no trainer
  // network.cc
  void deliver(uint32_t connection, bool from_dialer, const Message& message);
  void receive(uint32_t connection, bool from_dialer, const Message& message);
  bool is_held(const Connection& connection, bool from_dialer, int* fault) const;
  int64_t extra_latency(const Connection& connection);
  void block(uint32_t connection);
  void unblock(uint32_t connection);
  void silence(uint32_t connection, uint32_t serial);
  void try_dial(uint32_t dialer);
  void reach(uint32_t dialer, bool arrived);
  void transmit(uint32_t connection, bool from_dialer, const Message& message);
  void heal(uint32_t cut);
  void dialed(uint32_t dialer, bool answered);
  void redial(uint32_t dialer, bool was_up);
  void lost_connection(uint32_t connection);
  bool is_cut(Place a, Place b) const;
  uint32_t process_at(uint32_t address) const;
  void dispatcher_does(const Membership::Actions& actions);
  void dispatcher_hears(uint32_t connection, const Message& message);
  void dispatcher_tick(uint32_t life);
  void check_dispatcher();
  uint64_t listed() const;  // addresses that the dispatcher knows, a bit each
  // elastic.cc
  uint32_t add_worker(Machine machine, int fault);
  void drain_worker(uint32_t process, int fault);
  void tell_sizing(uint32_t connection);
  void resize();
  // workers.cc
  uint32_t start_process(uint32_t address, const Machine& machine);
  void worker_hears(uint32_t process, uint32_t connection, const Message& message);
  void fill(Process& process, uint32_t index);
  void finished(uint32_t process, uint32_t hand);
  void answer(uint32_t index, const Job& job);
  void session_over(Process& process, uint32_t connection);
  void report(uint32_t process);
  void end_process(uint32_t process, bool silently);
  void continue_process(uint32_t process);
  void kid_died(uint32_t process);
  void restart(uint32_t address);
  void drained(uint32_t process, uint32_t tries);
  // faults.cc
  void strike_due();
  bool strike(size_t fault);
  bool strike_worker(FaultKind kind, int index, const Fault& fault);
  bool strike_link(FaultKind kind, int index, const Fault& fault);
  bool strike_kid(FaultKind kind, int index);
  bool strike_spare(FaultKind kind, int index, const Fault& fault);
  bool end_dispatcher(int index, const Fault& fault);
  bool resume_ranks(uint32_t ranks, int index);
  void start_ranks(uint32_t ranks, uint32_t step);
  template <typename Holds>
  uint32_t pick(Holds holds);
  size_t remaining() const;

  const Schedule schedule_;
  const bool verbose_;
  Random random_;
  std::vector<Fault> faults_;
  Tally tally_;
  std::string breach_;
  int64_t now_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Travelling> travelling_;
  std::vector<uint32_t> free_;
  std::vector<Travelling> repeats_;  // answers that come a second time
  std::vector<Connection> connections_;
  std::vector<Dialer> dialers_;
  std::vector<Process> processes_;
  std::vector<Machine> machines_;  // by address
  std::vector<Cut> cuts_;
  std::optional<Membership> membership_;  // while the dispatcher is there
  std::optional<Sizing> sizing_;          // of a group that grows and shrinks
  int elastic_fault_ = -1;
  uint32_t resizes_ = 0;
  uint32_t dispatcher_life_ = 0;
  int dispatcher_fault_ = -1;
  int64_t last_trouble_ns_ = 0;               // when a worker was last stopped or cut off
  std::map<uint32_t, int64_t> misled_since_;  // ranks that know of other workers than the dispatcher
  std::vector<std::unique_ptr<Rank>> ranks_;  // of all lives
  uint32_t first_rank_ = 0;                   // of this life
  int resume_fault_ = -1;
  uint32_t world_size_ = 0;
  uint32_t checkpoint_ = 0;     // step
  std::vector<uint8_t> taken_;  // by position: how often
  std::vector<uint32_t> late_;  // by position: how often it still cannot be read
  std::vector<uint8_t> bad_;
  uint64_t arrivals_ = 0;
  uint32_t counted_ = 0;
  bool give_up_ = false;
};

}  // namespace stoker::feed::simulation
