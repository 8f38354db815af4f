// SPDX-License-Identifier: Apache-2.0
#include "control/controller.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/log.h"
#include "base/system_random.h"
#include "control/cost.h"
#include "control/resizing.h"

namespace stoker::control {

namespace {

constexpr size_t kMostUnwritten = 10000;
constexpr const char* kMarker = "/.submitting";

Error ending_error() {
  return unavailable("the server is ending; when it has, the same command starts a new one");
}

bool begins_work(const JobEvent& event, const JobState& state) {
  auto* resized = std::get_if<Resized>(&event);
  return std::holds_alternative<Placed>(event) || (resized && resized->to > state.instances(resized->group));
}

}  // namespace

std::string agent_id(const std::string& job, const std::string& host) { return job + "." + host; }

bool split_agent_id(const std::string& agent, std::string& job, std::string& host) {
  size_t dot = agent.rfind('.');
  if (dot == std::string::npos) return false;
  job = agent.substr(0, dot);
  host = agent.substr(dot + 1);
  return true;
}

Controller::Controller(http::Loop& loop, Clock& clock, Store& store, Catalogue catalogue, Options options)
    : loop_(loop),
      clock_(clock),
      store_(store),
      catalogue_(std::move(catalogue)),
      options_(std::move(options)),
      removal_(loop, options_.home + "/jobs", [this] { activity_.fire(); }),
      silence_(std::chrono::nanoseconds(options_.agent_silent).count()) {}

Job& Controller::add(StoredJob stored) {
  auto job = std::make_shared<Job>();
  job->folder = options_.home + "/jobs/" + stored.spec.name;
  job->stored = std::move(stored);
  job->emulated = need_of(job->spec(), options_.machine).gpus < job->spec().gpus();
  Job& added = *job;
  order_.push_back(&added);
  jobs_[added.name()] = std::move(job);
  return added;
}

Status Controller::open(std::unique_ptr<Provider> provider) {
  provider_ = std::move(provider);
  STOKER_ASSIGN(std::vector<StoredJob> stored, store_.jobs());
  for (StoredJob& job : stored) add(std::move(job));
  for (const std::string& agent : provider_->list()) {
    provider_->release(agent);
    const Job* of = owner(agent);
    kill_if_late(agent, of ? of->spec().grace_s : 0);
  }
  for (Job* job : order_) {
    if (job->over() || job->state().phase == JobPhase::kQueued) continue;
    std::vector<std::string> hosts;
    for (const HostState& host : job->state().hosts) hosts.push_back(host.name);
    for (const std::string& host : hosts)
      STOKER_TRY(change(*job, AgentLost{host, "the server was ended while the job ran"}));
  }
  // A folder that still has its marker belongs to a submission that nobody was told of.
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(options_.home + "/jobs", ignored)) {
    std::string name = entry.path().filename();
    if (name.starts_with('.')) continue;  // of no job
    std::filesystem::path marker = entry.path().string() + kMarker;
    if (!std::filesystem::exists(marker, ignored)) continue;
    if (jobs_.count(name))
      std::filesystem::remove(marker, ignored);
    else if (auto aside = removal_.put_aside(name); !aside.ok())
      log_line(LogLevel::kWarn, "control", aside.error().message);
  }
  removal_.clear_rest();
  schedule();
  return ok();
}

void Controller::submit(const Json& request, std::function<void(Result<Submitted>)> done) {
  if (ending_) return done(ending_error());
  auto parsed = parse_request(request, catalogue_, options_.machine, options_.defaults);
  if (!parsed.ok()) return done(std::move(parsed).error());
  JobSpec spec = std::move(*parsed);
  if (Status fits = check_fits_ever(spec, options_.machine); !fits.ok()) return done(std::move(fits).error());
  if (Status inputs = check_inputs(spec, options_.home); !inputs.ok()) return done(std::move(inputs).error());
  const bool is_named = !spec.name.empty();
  if (jobs_.count(spec.name)) return done(name_taken(spec.name));
  std::string home = options_.home;
  ++offloaded_;
  loop_.offload([this, spec = std::move(spec), is_named, now_ms = clock_.wall_ms(), home,
                 done = std::move(done)]() mutable -> http::Loop::Callback {
    std::string folder;
    auto copy = [&]() -> Result<CodeCopy> {
      STOKER_TRY(make_directories(home + "/jobs", 0700));
      int made = 0;
      do {  // two submissions of a second may get the same name from us
        if (!is_named) spec.name = make_job_name(spec.script, now_ms, static_cast<uint32_t>(random_number()));
        folder = home + "/jobs/" + spec.name;
        made = ::mkdir(folder.c_str(), 0755);
      } while (made != 0 && errno == EEXIST && !is_named);
      if (made != 0 && errno == EEXIST)
        return Error{Code::kExists,
                     "there is already a folder of a job named '" + spec.name + "'; choose another name",
                     {}};
      if (made != 0) return errno_error("making " + folder, errno);
      STOKER_TRY(write_file_atomic(folder + kMarker, {}));
      STOKER_TRY(make_directories(folder + "/code"));
      if (goes_alone(spec)) return copy_program(spec.code_folder, spec.script, folder + "/code");
      std::error_code unknown;  // a folder that is gone: copy_code says so
      auto real = [&](const std::string& path) {
        return std::filesystem::weakly_canonical(path, unknown).string();
      };
      std::vector<std::string> skip = {home};
      for (const JobInput& input : spec.inputs) skip.push_back(real(input.folder));
      return copy_code(real(spec.code_folder), folder + "/code", skip);
    };
    Result<CodeCopy> copied = copy();
    if (!copied.ok() && copied.error().code == Code::kNoSpace)
      copied =
          Error{Code::kNoSpace, copied.error().message + "; make room for " + home + " and run it again", {}};
    std::error_code ignored;
    if (!copied.ok() && copied.error().code != Code::kExists) std::filesystem::remove_all(folder, ignored);
    auto shared =
        std::make_shared<std::tuple<JobSpec, Result<CodeCopy>, std::function<void(Result<Submitted>)>>>(
            std::move(spec), std::move(copied), std::move(done));
    return [this, shared] {
      commit_submission(std::move(std::get<0>(*shared)), std::move(std::get<1>(*shared)),
                        std::move(std::get<2>(*shared)));
    };
  });
}

void Controller::commit_submission(JobSpec spec, Result<CodeCopy> copied,
                                   std::function<void(Result<Submitted>)> done) {
  --offloaded_;
  auto refuse = [&](Error error) {
    done(std::move(error));
    activity_.fire();
  };
  if (!copied.ok()) return refuse(std::move(copied).error());
  StoredJob stored;
  stored.state = new_job(spec, clock_.wall_ms(), random_number());
  stored.spec = std::move(spec);
  std::string folder = options_.home + "/jobs/" + stored.spec.name;
  Result<int64_t> number = ending_ ? ending_error() : store_.add(stored.spec, stored.state);
  std::error_code ignored;
  if (!number.ok()) {
    std::filesystem::remove_all(folder, ignored);
    return refuse(std::move(number).error());
  }
  ::unlink((folder + kMarker).c_str());
  stored.number = *number;
  Job& job = add(std::move(stored));
  done(Submitted{&job, std::move(*copied)});
  activity_.fire();
  schedule();
}

Status Controller::stop(Job& job, const std::string& reason) {
  if (job.over()) return ok();
  return change(job, StopAsked{reason});
}

void Controller::end(const std::string& reason) {
  ending_ = true;
  for (Job* job : order_)
    if (Status stopped = stop(*job, reason); !stopped.ok())
      log_line(LogLevel::kError, "control", stopped.error().message);
}

// An agent that has released its instance still has to end: its name must not meet a new job's.
bool Controller::has_agents(const Job& job) const {
  const std::vector<std::string> agents = provider_ ? provider_->list() : std::vector<std::string>();
  return std::any_of(agents.begin(), agents.end(),
                     [&](const std::string& agent) { return owner(agent) == &job; });
}

Status Controller::may_be_removed(const Job& job) const {
  const std::string& name = job.name();
  auto at = jobs_.find(name);
  if (at == jobs_.end() || at->second.get() != &job)
    return Error{Code::kNotFound, "job " + name + " has just been removed", {}};
  if (!job.over()) return unavailable("job " + name + " has not ended; `stoker stop " + name + "` ends it");
  // Only the job's folder says what that is.
  for (const HostState& host : job.state().hosts)
    if (provider_ && provider_->owes(agent_id(name, host.name)))
      return unavailable("something of " + host.name + " of job " + name +
                         " could not be cleared yet, which the next server does: `stoker server --stop`, "
                         "then try again");
  return ok();
}

void Controller::remove(Job& job, std::function<void(Status)> done) {
  const std::string name = job.name();
  if (Status may = may_be_removed(job); !may.ok()) return done(std::move(may));
  if (has_agents(job))
    return removal_.await_agent(
        name, [this, held = job.shared_from_this(), done = std::move(done)](bool late) mutable {
          if (late && has_agents(*held))
            return done(unavailable("an agent of job " + held->name() + " has not ended yet; try again"));
          remove(*held, std::move(done));
        });
  auto aside = removal_.put_aside(name);
  if (!aside.ok()) return done(std::move(aside).error());
  Status gone = store_.remove(name);
  if (gone.ok()) {
    forget(job);
    return removal_.clear(*aside, std::move(done));
  }
  if (gone.error().code != Code::kNoSpace) {
    removal_.put_back(*aside, name);
    return done(std::move(gone));
  }
  // A full disk has no room for the table's change: what the folder takes makes it. What became of the job
  // need not be written down before.
  removal_.clear(*aside, [this, held = job.shared_from_this(), done = std::move(done)](Status cleared) {
    if (Status may = may_be_removed(*held); !may.ok()) return done(std::move(may));
    Status again = store_.remove(held->name());
    if (again.ok()) forget(*held);
    done(again.ok() ? std::move(cleared) : std::move(again));
  });
}

void Controller::forget(Job& job) {
  const std::string name = job.name();
  std::erase_if(unwritten_, [&](const Change& change) { return change.job == name; });
  unrecorded_.erase(name);
  std::erase(order_, &job);
  jobs_.erase(name);
}

Status Controller::check_folder(const Job& job) {
  if (!job.over() || ::access(job.folder.c_str(), F_OK) == 0) return ok();
  return Error{Code::kNotFound,
               "the folder of job " + job.name() + ", " + job.folder +
                   ", is gone, with its logs and telemetry; `stoker rm " + job.name() +
                   "` takes the job off the list",
               {}};
}

Result<Job*> Controller::find(const std::string& name) {
  auto unknown = [&](const std::string& more) {
    return Error{
        Code::kNotFound, "there is no job '" + name + "'" + more + "; `stoker ps --all` lists them", {}};
  };
  if (name == "last") {
    if (order_.empty())
      return Error{Code::kNotFound, "there is no job yet; `stoker run SCRIPT` starts one", {}};
    return order_.back();
  }
  auto at = jobs_.lower_bound(name);
  if (at == jobs_.end() || at->first.compare(0, name.size(), name) != 0) return unknown("");
  if (at->first == name) return at->second.get();
  auto matches = [&](const auto& job) { return job != jobs_.end() && job->first.starts_with(name); };
  auto next = std::next(at);
  if (matches(next))
    return invalid("'" + name + "' is the beginning of more than one job: " + at->first + ", " + next->first +
                   (matches(std::next(next)) ? ", …" : "") + "; type more of it");
  return at->second.get();
}

std::vector<Job*> Controller::jobs() { return order_; }

size_t Controller::active() const {
  return static_cast<size_t>(
      std::count_if(order_.begin(), order_.end(), [](Job* job) { return !job->over(); }));
}

bool Controller::quiet() const {
  return active() == 0 && offloaded_ == 0 && !removal_.busy() && (!provider_ || provider_->list().empty());
}

Status Controller::check_written() const {
  std::set<std::string> names;
  for (const Change& change : unwritten_) names.insert(change.job);
  if (names.empty()) return ok();
  std::string jobs;
  for (const std::string& name : names) jobs += (jobs.empty() ? "" : ", ") + name;
  return unavailable("what became of " + jobs +
                     " could not be written down yet, since there is no room for " + options_.home +
                     "/jobs.db: make room on that disk (`stoker rm JOB`)");
}

Result<std::shared_ptr<Job::Link>> Controller::link(const std::string& agent) {
  std::string job_name, host;
  Error unknown{Code::kNotFound, "this server has no agent '" + agent + "'", {}};
  if (!split_agent_id(agent, job_name, host)) return unknown;
  auto at = jobs_.find(job_name);
  if (at == jobs_.end()) return unknown;
  auto link = at->second->links.find(host);
  if (link == at->second->links.end()) return unknown;
  // A poll that is read after its agent has ended: nobody would forget it again.
  const HostState* state = at->second->stored.state.find_host(host);
  if (!at->second->over() && state && state->phase != HostPhase::kReleased) heard(agent);
  return std::shared_ptr<Job::Link>(at->second, &link->second);
}

Result<int64_t> Controller::take_events(const std::string& agent,
                                        const std::vector<agent::AgentEvent>& events) {
  std::string job_name, host_name;
  auto at = split_agent_id(agent, job_name, host_name) ? jobs_.find(job_name) : jobs_.end();
  const HostState* host = at == jobs_.end() ? nullptr : at->second->stored.state.find_host(host_name);
  if (!host) return Error{Code::kNotFound, "this server has no agent '" + agent + "'", {}};
  Job& job = *at->second;
  // An agent whose job is over (it outlived its server, say) has nothing to tell any more and may go.
  if (job.over()) return events.empty() ? host->last_event : events.back().seq;
  for (const agent::AgentEvent& event : events) STOKER_TRY(change(job, FromAgent{host_name, event}));
  return job.stored.state.find_host(host_name)->last_event;
}

void Controller::agent_ended(const std::string& agent, const std::string& how) {
  activity_.fire();
  silence_.ended(agent);
  std::string job, host;
  if (!split_agent_id(agent, job, host)) return;
  removal_.agent_ended(job);
  lose(job, host,
       "its agent ended with " + how + " before the instance was released; see " + options_.home + "/jobs/" +
           job + "/run/" + host + ".agent.log");
}

// Again until it is written down: a job must not wait for an agent that is gone.
void Controller::lose(const std::string& name, const std::string& host, const std::string& message) {
  auto at = jobs_.find(name);
  if (at == jobs_.end()) return;
  Job& job = *at->second;
  const HostState* state = job.stored.state.find_host(host);
  if (job.over() || !state || state->phase == HostPhase::kReleased) return;
  Status changed = change(job, AgentLost{host, message});
  if (changed.ok()) return;
  log_line(LogLevel::kError, "control", name + ": " + changed.error().message);
  loop_.after(std::chrono::seconds(1), [this, name, host, message] { lose(name, host, message); });
}

const Job* Controller::owner(const std::string& agent) const {
  std::string job, host;
  const auto at = split_agent_id(agent, job, host) ? jobs_.find(job) : jobs_.end();
  return at == jobs_.end() ? nullptr : at->second.get();
}

// An agent that is paused or hangs would keep a job that was stopped for ever.
void Controller::kill_if_late(const std::string& agent, double grace_s) {
  auto wait = std::chrono::duration<double>(grace_s + options_.agent_late_s);
  const Job* job = owner(agent);
  loop_.after(std::chrono::duration_cast<std::chrono::milliseconds>(wait),
              [this, agent, of = job ? job->weak_from_this() : std::weak_ptr<const Job>()] {
                if (owner(agent) != of.lock().get())
                  return;  // its job was removed, and another has the name now
                const std::vector<std::string> living = provider_->list();
                if (std::find(living.begin(), living.end(), agent) == living.end()) return;
                log_line(LogLevel::kError, "control",
                         agent + " has not ended when it was told to: it is killed");
                provider_->kill(agent);
              });
}

// The looks go on while there is any agent: a server without jobs does not wake up.
void Controller::heard(const std::string& agent) {
  if (silence_.heard(agent, clock_.monotonic_ns())) tell_silence(agent, true);
  if (!std::exchange(looks_for_silence_, true)) look_for_silence();
}

void Controller::look_for_silence() {
  for (const std::string& agent : silence_.look(clock_.monotonic_ns())) tell_silence(agent, false);
  looks_for_silence_ = !silence_.nobody();
  if (!looks_for_silence_) return;
  const std::chrono::nanoseconds wait(silence_.look_every_ns());
  loop_.after(std::chrono::duration_cast<std::chrono::milliseconds>(wait), [this] { look_for_silence(); });
}

void Controller::tell_silence(const std::string& agent, bool back) {
  std::string job, host;
  const auto at = split_agent_id(agent, job, host) ? jobs_.find(job) : jobs_.end();
  if (at == jobs_.end()) return;
  log_line(LogLevel::kWarn, "control", agent + (back ? " is heard of again" : " is not heard of"));
  if (Status told = change(*at->second, AgentSilent{host, back}); !told.ok())
    log_line(LogLevel::kError, "control", told.error().message);
}

// On a copy first: what cannot be written down has not happened, and whoever reported it will report it
// again. But work that goes on is not stopped from ending by a full disk: see write_down().
Status Controller::change(Job& job, const JobEvent& event) {
  int64_t now = clock_.wall_ms();
  JobState next = job.stored.state;
  Effects effects = apply(job.spec(), next, event, now);
  if (effects.changed)
    STOKER_TRY(write_down({job.name(), next, event_json(event), now}, !begins_work(event, job.state())));
  job.stored.state = std::move(next);
  after_change(job, std::move(effects));
  return ok();
}

// What may wait is kept in memory, in order, while the table cannot be written (the disk is full), so that
// jobs end and can be stopped; a server that dies meanwhile finds them running, as after any death. New work
// does not begin.
Status Controller::write_down(Change change, bool may_wait) {
  if (unwritten_.empty()) {
    Status written = store_.update(change.job, change.state, change.event, change.at_ms);
    if (written.ok() || !may_wait) return written;
    log_line(LogLevel::kError, "control",
             written.error().message + "; until it can be written, what becomes of jobs is kept in memory");
    table_waits_ = true;
    write_rest_later();
  }
  if (!may_wait || unwritten_.size() >= kMostUnwritten)
    return unavailable("the job table cannot be written; see " + options_.home + "/server.log");
  unwritten_.push_back(std::move(change));
  return ok();
}

void Controller::write_rest_later() {
  if (std::exchange(writes_later_, true)) return;
  loop_.after(std::chrono::seconds(1), [this] {
    writes_later_ = false;
    write_rest();
  });
}

void Controller::write_rest() {
  for (; !unwritten_.empty(); unwritten_.pop_front()) {
    const Change& next = unwritten_.front();
    if (!store_.update(next.job, next.state, next.event, next.at_ms).ok()) return write_rest_later();
  }
  for (const std::string& name : std::set(unrecorded_)) write_record(*jobs_.at(name));
  if (!std::exchange(table_waits_, false)) return;
  log_line(LogLevel::kInfo, "control", "the job table is written again");
  activity_.fire();
  schedule();
}

void Controller::after_change(Job& job, Effects effects) {
  for (StopHost& stop : effects.stops) {
    Job::Link& link = job.links[stop.host];
    agent::AgentCommand command;
    command.seq = static_cast<int64_t>(link.commands.size()) + 1;
    command.what = agent::Stop{stop.grace_s, stop.reason};
    link.commands.push_back(std::move(command));
    link.changed.fire();
    provider_->wake(agent_id(job.name(), stop.host));
    kill_if_late(agent_id(job.name(), stop.host), stop.grace_s);
  }
  ++job.version;
  if (!job.over() && (effects.freed || !next_resizes(job.spec(), job.state(), clock_.wall_ms()).empty()))
    loop_.post([this] { schedule(); });
  if (job.over()) {
    write_record(job);
    job.subnet.clear();
  }
  job.changed.fire();
  if (job.over()) {
    activity_.fire();
    loop_.post([this] { schedule(); });
  }
}

void Controller::schedule() {
  std::vector<Waiting> queue, holding;
  for (Job* job : order_) {
    if (job->over()) continue;
    const bool waits = job->state().phase == JobPhase::kQueued;
    Need need =
        waits ? need_of(job->spec(), options_.machine) : held_by(job->spec(), job->state(), options_.machine);
    (waits ? queue : holding).push_back({job->name(), need});
  }
  std::vector<std::string> starting = pick(queue, holding, options_.machine);
  for (const std::string& name : starting) {
    holding.push_back(queue.front());
    queue.erase(queue.begin());
    place(*jobs_[name]);
  }
  if (!queue.empty()) yield_to(queue.front(), holding);
  std::vector<Waiting> ahead;
  for (const Waiting& entry : queue) {
    Job& job = *jobs_[entry.name];
    std::string why = why_waiting(entry, ahead, holding, options_.machine);
    if (why != job.waiting_for) {
      job.waiting_for = std::move(why);
      ++job.version;
      job.changed.fire();
    }
    ahead.push_back(entry);
  }
  for (Job* job : std::vector<Job*>(order_)) resize(*job, queue, holding);
}

Json Controller::job_json(const Job& job) const {
  int64_t now = clock_.wall_ms();
  Json json;
  json.set("name", job.name()).set("number", job.stored.number).set("version", job.version);
  json.set("phase", phase_name(job.state().phase)).set("waiting_for", job.waiting_for);
  json.set("folder", job.folder).set("emulated", job.emulated);
  json.set("spec", job.spec().to_json()).set("state", job.state().shown());
  auto price = control::price_per_hour(job.spec(), job.state());
  auto paid = control::cost(job.spec(), job.state(), now);
  json.set("price_per_hour", price ? Json(*price) : Json()).set("cost", paid ? Json(*paid) : Json());
  json.set("billed_seconds", control::billed_seconds(job.state(), now));
  return json;
}

// One that finds no room is written later, so that a job does not stay as it was in what its folder says.
void Controller::write_record(const Job& job) {
  Status written =
      write_file_atomic(job.folder + "/record.json", as_bytes(job_json(job).dump_pretty() + "\n"));
  const bool waited = unrecorded_.erase(job.name()) > 0;
  if (written.ok()) return;
  if (!waited)
    log_line(LogLevel::kWarn, "control", "record of " + job.name() + ": " + written.error().message);
  if (written.error().code != Code::kNoSpace) return;
  unrecorded_.insert(job.name());
  write_rest_later();
}

}  // namespace stoker::control
