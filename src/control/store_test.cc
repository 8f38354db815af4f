// SPDX-License-Identifier: Apache-2.0
#include "control/store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/files.h"
#include "base/test_folder.h"
#include "control/test_jobs.h"

namespace stoker::control {
namespace {

class StoreTest : public testing::Test {
 protected:
  TestFolder own_;
  const std::string folder_ = own_.path(), path_ = folder_ + "/jobs.db";
};

// As the controller does.
Status change(Store& store, const JobSpec& spec, JobState& state, const JobEvent& event, int64_t now) {
  if (!apply(spec, state, event, now).changed) return ok();
  return store.update(spec.name, state, event_json(event), now);
}

TEST_F(StoreTest, JobsComeBackInOrder) {
  JobSpec a = example_job({"train=1xml.p3.2xlarge", "data=1xhere:feed"}, "zebra"),
          b = example_job({"t=1xhere"}, "ant");
  a.environment["KEY"] = "value\n\"quoted\"";
  JobState state = new_job(a, 5, 1);
  {
    auto store = Store::open(path_);
    ASSERT_TRUE(store.ok()) << store.error().message;
    ASSERT_TRUE((*store)->add(a, state).ok());
    ASSERT_TRUE((*store)->add(b, new_job(b, 6, 1)).ok());
    EXPECT_EQ((*store)->add(a, state).error().code, Code::kExists);
    ASSERT_TRUE(change(**store, a, state, Placed{}, 7).ok());
  }
  auto store = Store::open(path_);
  ASSERT_TRUE(store.ok());
  auto jobs = (*store)->jobs();
  ASSERT_TRUE(jobs.ok()) << jobs.error().message;
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_EQ((*jobs)[0].spec.to_json().dump(), a.to_json().dump());
  EXPECT_EQ((*jobs)[0].state.to_json().dump(), state.to_json().dump());
  EXPECT_EQ((*jobs)[1].spec.name, "ant");
}

TEST_F(StoreTest, RemovedJobFreesItsNameAndTakesItsEventsAlong) {
  auto store = *Store::open(path_);
  JobSpec a = example_job({"t=1xhere"}, "a"), b = example_job({"t=1xhere"}, "b");
  ASSERT_TRUE(store->add(a, new_job(a, 5, 1)).ok());
  ASSERT_TRUE(store->add(b, new_job(b, 6, 1)).ok());
  ASSERT_TRUE(store->remove("a").ok());
  ASSERT_EQ(store->jobs()->size(), 1u);
  EXPECT_EQ((*store->jobs())[0].spec.name, "b");
  EXPECT_TRUE(store->events("a")->empty());
  EXPECT_EQ(store->events("b")->size(), 1u);
  EXPECT_TRUE(store->add(a, new_job(a, 7, 1)).ok());
}

// What is stored after `events`, and what the table's own events make of the first state.
std::pair<JobState, JobState> stored_and_replayed(const std::string& path, const JobSpec& spec,
                                                  const JobState& first,
                                                  const std::vector<JobEvent>& events) {
  auto store = Store::open(path);
  CHECK(store.ok() && (*store)->add(spec, first).ok());
  JobState state = first, replayed = first;
  int64_t now = 10;
  for (const JobEvent& event : events) EXPECT_TRUE(change(**store, spec, state, event, now++).ok());
  auto stored = (*store)->events(spec.name);
  CHECK(stored.ok());
  for (size_t i = 1; i < stored->size(); ++i) {  // after `created`
    auto event = event_from_json((*stored)[i]);
    EXPECT_TRUE(event.ok()) << event.error().message;
    apply(spec, replayed, *event, (*stored)[i]["time_ms"].as_int());
  }
  EXPECT_EQ((*store)->jobs()->at(0).state.to_json().dump(), state.to_json().dump());
  return {(*store)->jobs()->at(0).state, replayed};
}

TEST_F(StoreTest, ReplayingTheEventsGivesTheState) {
  JobSpec spec = example_job({"train=1xhere", "data=1xhere:feed"});
  JobState first = new_job(spec, 5, 3);
  std::string main = first.hosts[0].group == "train" ? "algo-1" : "algo-2";
  std::string helper = main == "algo-1" ? "algo-2" : "algo-1";
  auto [stored, replayed] = stored_and_replayed(
      path_, spec, first,
      {Placed{}, FromAgent{main, {1, 0, agent::Preparing{"requirements"}}},
       FromAgent{main, {2, 0, agent::Started{1}}}, FromAgent{helper, {1, 0, agent::Started{2}}},
       AgentSilent{helper, false}, AgentSilent{helper, true},
       FromAgent{main, {3, 0, agent::Exited{1, 0, true, "out of memory", "text"}}},
       FromAgent{helper, {2, 0, agent::Stopped{143, 15, false}}}, FromAgent{main, {4, 0, agent::Released{}}},
       AgentLost{helper, "lost"}});
  EXPECT_EQ(stored.phase, JobPhase::kFailed);
  EXPECT_EQ(replayed.to_json().dump(), stored.to_json().dump());
}

TEST_F(StoreTest, JobThatFailsWhilePreparingIsReplayedToo) {
  JobSpec spec = example_job({"train=1xhere"});
  JobState first = new_job(spec, 5, 3);
  const JobEvent preparing = FromAgent{"algo-1", {1, 0, agent::Preparing{"requirements"}}};
  JobState seen = first;
  apply(spec, seen, Placed{}, 1);
  EXPECT_FALSE(apply(spec, seen, preparing, 2).changed);
  EXPECT_EQ(seen.shown()["hosts"].as_array()[0]["step"].as_string(), "requirements");
  apply(spec, seen, FromAgent{"algo-1", {2, 0, agent::Failed{"start", "no"}}}, 3);
  EXPECT_EQ(seen.shown()["hosts"].as_array()[0]["step"].as_string(), "") << "it prepares nothing any more";

  auto [stored, replayed] =
      stored_and_replayed(path_, spec, first,
                          {Placed{}, preparing, FromAgent{"algo-1", {2, 0, agent::Failed{"start", "no"}}},
                           FromAgent{"algo-1", {3, 0, agent::Released{}}}});
  EXPECT_EQ(stored.phase, JobPhase::kFailed);
  EXPECT_EQ(replayed.to_json().dump(), stored.to_json().dump());
}

TEST_F(StoreTest, GroupThatGrewAndShrankIsReplayedToo) {
  JobSpec spec = example_job({"train=1xhere", "data=1..3xhere:feed"});
  JobState first = new_job(spec, 5, 3);
  const std::string main = first.hosts[0].group == "train" ? "algo-1" : "algo-2";
  auto [stored, replayed] = stored_and_replayed(
      path_, spec, first,
      {Placed{}, FromAgent{main, {1, 0, agent::Started{1}}},
       FromAgent{main, {2, 0, agent::WantedSize{"data", 3, 1, 300.5, 100, 0.4, "it waits"}}},
       Resized{"data", 2, {}}, NotFree{"data", "needs 1 cores, 0 are free"},
       FromAgent{"algo-3", {1, 0, agent::Started{2}}},
       FromAgent{main, {3, 0, agent::WantedSize{"data", 1, 2, 50, 200, 0, "it does not"}}},
       Resized{"data", 1, "job late is queued"}, FromAgent{"algo-3", {2, 0, agent::Stopped{0, 0, false}}},
       FromAgent{"algo-3", {3, 0, agent::Released{}}}});
  EXPECT_EQ(stored.resizes.size(), 2u);
  EXPECT_EQ(replayed.to_json().dump(), stored.to_json().dump());
}

// Killed at any moment, the table holds every job that was acknowledged (its number was written to the pipe),
// each with the events of its state.
TEST_F(StoreTest, KilledWriterLosesNothingAcknowledged) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto store = Store::open(path_);
    for (int i = 0; store.ok(); ++i) {
      JobSpec spec = example_job({"train=1xhere"}, "job-" + std::to_string(i));
      JobState state = new_job(spec, i, 0);
      if (!(*store)->add(spec, state).ok() || !change(**store, spec, state, Placed{}, i).ok()) break;
      if (write(ends[1], &i, sizeof i) != sizeof i) break;
    }
    _exit(1);
  }
  close(ends[1]);
  int acknowledged = -1;
  for (int i = 0; i < 50; ++i)
    ASSERT_EQ(read(ends[0], &acknowledged, sizeof acknowledged), ssize_t{sizeof acknowledged});
  kill(child, SIGKILL);
  while (read(ends[0], &acknowledged, sizeof acknowledged) == ssize_t{sizeof acknowledged}) {
  }
  close(ends[0]);
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));

  auto store = Store::open(path_);
  ASSERT_TRUE(store.ok()) << store.error().message;
  auto jobs = (*store)->jobs();
  ASSERT_TRUE(jobs.ok());
  ASSERT_GE(jobs->size(), static_cast<size_t>(acknowledged) + 1);
  for (const StoredJob& job : *jobs) {
    auto events = (*store)->events(job.spec.name);
    ASSERT_TRUE(events.ok());
    EXPECT_EQ(events->size(), job.state.phase == JobPhase::kQueued ? 1u : 2u);
    if (job.number <= acknowledged + 1) {
      EXPECT_EQ(job.state.phase, JobPhase::kPreparing);
    }
  }
}

// Forbids the transactions of every connection that is opened from now on.
int forbid_transactions(sqlite3* db, char**, const sqlite3_api_routines*) {
  return sqlite3_set_authorizer(
      db,
      [](void*, int action, const char*, const char*, const char*, const char*) {
        return action == SQLITE_TRANSACTION ? SQLITE_DENY : SQLITE_OK;
      },
      nullptr);
}

TEST_F(StoreTest, NothingIsMigratedOutsideATransaction) {
  auto hook = reinterpret_cast<void (*)()>(forbid_transactions);
  ASSERT_EQ(sqlite3_auto_extension(hook), SQLITE_OK);
  auto store = Store::open(path_);
  sqlite3_reset_auto_extension();
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.error().message.find("migrating"), std::string::npos) << store.error().message;
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  int tables = -1;
  auto count = [](void* out, int, char** values, char**) {
    return *static_cast<int*>(out) = atoi(values[0]), 0;
  };
  ASSERT_EQ(sqlite3_exec(db, "SELECT count(*) FROM sqlite_master", count, &tables, nullptr), SQLITE_OK);
  sqlite3_close(db);
  EXPECT_EQ(tables, 0);
}

TEST_F(StoreTest, NewerDatabaseIsRefused) {
  { ASSERT_TRUE(Store::open(path_).ok()); }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  sqlite3_exec(db, "PRAGMA user_version = 99", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  auto store = Store::open(path_);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace stoker::control
