// SPDX-License-Identifier: Apache-2.0
// The one who knows all jobs: takes events (a submission, an agent's report, a stop), lets job_state and
// scheduler decide, writes the decision down, then does it. Confined to the loop; long work (copying code) is
// offloaded.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/code_copy.h"
#include "control/providers/provider.h"
#include "control/removal.h"
#include "control/scheduler.h"
#include "control/signal.h"
#include "control/silence.h"
#include "control/store.h"
#include "http/loop.h"

namespace stoker::control {

// Whoever waits for something of one holds it: it may be removed meanwhile.
struct Job : std::enable_shared_from_this<Job> {
  StoredJob stored;
  int64_t version = 0;  // grows with every change, steps of preparation included
  Signal changed;
  std::string waiting_for;  // why it is still queued
  std::string folder;       // $STOKER_HOME/jobs/NAME
  bool emulated = false;    // runs with fewer accelerators than its types have

  struct Link {  // to the agent of one host
    std::vector<agent::AgentCommand> commands;
    Signal changed;
  };
  std::map<std::string, Link> links;  // by host
  std::string subnet;                 // "10.200.7." while it holds machines
  std::string bridge;
  std::map<std::string, int> numbers;  // by host: the last part of its address

  const std::string& name() const { return stored.spec.name; }
  const JobSpec& spec() const { return stored.spec; }
  const JobState& state() const { return stored.state; }
  bool over() const { return is_over(stored.state.phase); }
};

class Controller {
 public:
  struct Options {
    std::string home;
    ServerDefaults defaults;
    Machine machine;
    double agent_late_s = 30;  // so long after the grace of a stop an agent that has not ended is killed
    std::chrono::milliseconds agent_silent{60'000};  // a notice tells of one that says nothing for so long
  };
  struct Submitted {
    Job* job = nullptr;
    CodeCopy code;
  };

  Controller(http::Loop& loop, Clock& clock, Store& store, Catalogue catalogue, Options options);
  Controller(const Controller&) = delete;

  // Takes the provider, reads the table, fails what an earlier server left running and starts the queue.
  Status open(std::unique_ptr<Provider> provider);
  void agent_ended(const std::string& agent, const std::string& how);  // for the provider to call

  // `done` is called when the job is in the table, or with why it was refused.
  void submit(const Json& request, std::function<void(Result<Submitted>)> done);
  Status stop(Job& job, const std::string& reason);
  // Takes an ended job off the table, which frees its name, and removes its folder; `done` is called when
  // that is gone or with why it was not.
  void remove(Job& job, std::function<void(Status)> done);
  // That an ended job's folder is still there; its user may have removed it by hand.
  static Status check_folder(const Job& job);
  // Stops every job and takes no other, one whose code is still being copied neither. What could not be
  // stopped (a full disk) is logged; may be called again.
  void end(const std::string& reason);

  // A whole name, an unambiguous beginning of one, or "last". Errors name the near ones.
  Result<Job*> find(const std::string& name);
  std::vector<Job*> jobs();  // in order of arrival
  size_t active() const;     // jobs that are not over
  bool quiet() const;  // none is active or on its way, and no agent is left, of an earlier server either
  // That all that became of jobs is written down. A server that ends before that (the disk is full) loses it.
  Status check_written() const;

  // The agents' side. kNotFound for an agent this server does not know: it then ends by itself. An agent that
  // asks for its link is one that is there.
  Result<std::shared_ptr<Job::Link>> link(const std::string& agent);
  Result<int64_t> take_events(const std::string& agent, const std::vector<agent::AgentEvent>& events);

  Json job_json(const Job& job) const;
  const Catalogue& catalogue() const { return catalogue_; }
  const Options& options() const { return options_; }
  Signal& activity() {
    return activity_;
  }  // fires when a job was added, refused or ended, or an agent has ended

 private:
  struct Change {
    std::string job;
    JobState state;
    Json event;
    int64_t at_ms = 0;
  };
  Status change(Job& job, const JobEvent& event);
  Status write_down(Change change, bool may_wait);
  void write_rest();
  void write_rest_later();
  void after_change(Job& job, Effects effects);
  void schedule();
  void place(Job& job);
  void lose(const std::string& name, const std::string& host, const std::string& message);
  void kill_if_late(const std::string& agent, double grace_s);
  void heard(const std::string& agent);
  void look_for_silence();
  void tell_silence(const std::string& agent, bool back);
  Result<agent::Assignment> assignment(const Job& job, const HostState& host, int64_t gpus) const;
  Status make_folders(const Job& job) const;
  Status make_folders(const Job& job, const HostState& host) const;
  static void number(Job& job, const HostState& host);
  void acquire(Job& job, const HostState& host, int64_t gpus, Status ready);
  void resize(Job& job, const std::vector<Waiting>& queue, std::vector<Waiting>& holding);
  void resize(Job& job, const Resized& to, std::vector<Waiting>& holding);
  void yield_to(const Waiting& front, std::vector<Waiting>& holding);
  void keep_trying(const Status& written);
  void schedule_in(std::chrono::milliseconds wait);
  std::string free_subnet();
  void write_record(const Job& job);
  void commit_submission(JobSpec spec, Result<CodeCopy> copied, std::function<void(Result<Submitted>)> done);
  Job& add(StoredJob stored);
  const Job* owner(const std::string& agent) const;  // nullptr for an agent of no job that is known
  bool has_agents(const Job& job) const;
  Status may_be_removed(const Job& job) const;
  void forget(Job& job);

  http::Loop& loop_;
  Clock& clock_;
  Store& store_;
  Catalogue catalogue_;
  Options options_;
  std::unique_ptr<Provider> provider_;
  std::map<std::string, std::shared_ptr<Job>> jobs_;
  std::vector<Job*> order_;
  Signal activity_;
  Removal removal_;
  int offloaded_ = 0;  // submissions whose code is being copied
  bool ending_ = false;
  std::deque<Change> unwritten_;
  bool table_waits_ = false;          // for room, until it could be written again
  std::set<std::string> unrecorded_;  // jobs whose record.json found no room
  bool writes_later_ = false;
  struct NextSchedule {
    std::chrono::steady_clock::time_point due;
    http::Loop::TimerId timer;
  };
  std::optional<NextSchedule> next_schedule_;
  Silence silence_;
  bool looks_for_silence_ = false;
};

// JOB.algo-N, and back.
std::string agent_id(const std::string& job, const std::string& host);
bool split_agent_id(const std::string& agent, std::string& job, std::string& host);

}  // namespace stoker::control
