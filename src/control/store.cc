// SPDX-License-Identifier: Apache-2.0
#include "control/store.h"

#include <sqlite3.h>

#include <utility>

namespace stoker::control {

namespace {

// Step i brings user_version from i to i + 1. Steps are only ever appended.
constexpr const char* kMigrations[] = {
    "CREATE TABLE jobs ("
    "  number INTEGER PRIMARY KEY,"
    "  name TEXT NOT NULL UNIQUE,"
    "  phase TEXT NOT NULL,"
    "  spec TEXT NOT NULL,"
    "  state TEXT NOT NULL);"
    "CREATE TABLE events ("
    "  id INTEGER PRIMARY KEY,"
    "  job TEXT NOT NULL,"
    "  time_ms INTEGER NOT NULL,"
    "  event TEXT NOT NULL);"
    "CREATE INDEX events_of_job ON events (job, id);",
};
constexpr int kVersion = static_cast<int>(std::size(kMigrations));

Error error_of(sqlite3* db, const std::string& what) {
  Code kind = sqlite3_errcode(db) == SQLITE_FULL ? Code::kNoSpace : Code::kInternal;
  return {kind, "job table: " + what + ": " + sqlite3_errmsg(db), {}};
}

}  // namespace

struct Store::Impl {
  sqlite3* db = nullptr;
  ~Impl() {
    if (db) sqlite3_close(db);
  }

  Error error(const std::string& what) const { return error_of(db, what); }
  Status run(const char* sql) {
    if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return error(sql);
    return ok();
  }
  Result<int64_t> integer(const char* sql);
  Status migrate();
};

namespace {

// One prepared statement, finalized once. Parameters are bound in order.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) { sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr); }
  Statement(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(statement_); }

  Statement& bind(const std::string& text) {
    if (statement_)
      sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& bind(int64_t value) {
    if (statement_) sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  int step() { return statement_ ? sqlite3_step(statement_) : SQLITE_ERROR; }
  int64_t integer(int column) { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) {
    const void* bytes = sqlite3_column_text(statement_, column);
    return {static_cast<const char*>(bytes), static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

// Rolls back unless committed.
class Transaction {
 public:
  // Without one, what is written would stay whatever follows: whoever cannot begin must not write.
  static Result<Transaction> begin(sqlite3* db, const std::string& what) {
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) != SQLITE_OK)
      return error_of(db, what);
    return Transaction(db);
  }
  Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  ~Transaction() {
    if (db_) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  bool commit() {
    if (sqlite3_exec(db_, "COMMIT", nullptr, nullptr, nullptr) != SQLITE_OK) return false;
    db_ = nullptr;
    return true;
  }

 private:
  explicit Transaction(sqlite3* db) : db_(db) {}
  sqlite3* db_;
};

Result<Json> parse_row(const std::string& text, const std::string& job) {
  auto parsed = Json::parse(text);
  if (!parsed.ok()) return std::move(parsed).error().during("job table: row of " + job);
  return parsed;
}

}  // namespace

Result<int64_t> Store::Impl::integer(const char* sql) {
  Statement statement(db, sql);
  if (statement.step() != SQLITE_ROW) return error(sql);
  return statement.integer(0);
}

Status Store::Impl::migrate() {
  STOKER_ASSIGN(int64_t version, integer("PRAGMA user_version"));
  if (version > kVersion)
    return Error{Code::kUnsupported,
                 "job table: written by a newer stoker (version " + std::to_string(version) +
                     ", this one knows " + std::to_string(kVersion) +
                     "); use that one, or another STOKER_HOME",
                 {}};
  for (; version < kVersion; ++version) {
    STOKER_ASSIGN(Transaction transaction, Transaction::begin(db, "migrating"));
    STOKER_TRY(run(kMigrations[version]));
    STOKER_TRY(run(("PRAGMA user_version = " + std::to_string(version + 1)).c_str()));
    if (!transaction.commit()) return error("migrating");
  }
  return ok();
}

Error name_taken(const std::string& name) {
  return {Code::kExists,
          "there is already a job named '" + name + "'; choose another name, or free it: `stoker rm " + name +
              "` once the job has ended",
          {}};
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path.c_str(), &impl->db, flags, nullptr) != SQLITE_OK)
    return impl->error("opening " + path);
  sqlite3_busy_timeout(impl->db, 5000);
  auto prepare = [&]() -> Status {
    STOKER_TRY(impl->run("PRAGMA journal_mode = WAL"));
    STOKER_TRY(impl->run("PRAGMA synchronous = FULL"));
    return impl->migrate();
  };
  if (Status prepared = prepare(); !prepared.ok()) {
    Error error = std::move(prepared).error().during(path);
    if (error.code != Code::kNoSpace)
      error.message +=
          "; if the file is damaged, put a copy of it back, or move it and its -wal away to begin with "
          "an empty table (the jobs' folders stay)";
    return error;
  }
  return std::unique_ptr<Store>(new Store(std::move(impl)));
}

Result<int64_t> Store::add(const JobSpec& spec, const JobState& state) {
  sqlite3* db = impl_->db;
  STOKER_ASSIGN(Transaction transaction, Transaction::begin(db, "adding " + spec.name));
  {
    Statement insert(db, "INSERT INTO jobs (name, phase, spec, state) VALUES (?, ?, ?, ?)");
    insert.bind(spec.name)
        .bind(phase_name(state.phase))
        .bind(spec.to_json().dump())
        .bind(state.to_json().dump());
    int result = insert.step();
    if (result == SQLITE_CONSTRAINT) return name_taken(spec.name);
    if (result != SQLITE_DONE) return impl_->error("adding " + spec.name);
  }
  int64_t number = sqlite3_last_insert_rowid(db);
  Json event;
  event.set("kind", "created").set("hosts", state.to_json()["hosts"]);
  Statement log(db, "INSERT INTO events (job, time_ms, event) VALUES (?, ?, ?)");
  if (log.bind(spec.name).bind(state.created_ms).bind(event.dump()).step() != SQLITE_DONE)
    return impl_->error("adding " + spec.name);
  if (!transaction.commit()) return impl_->error("adding " + spec.name);
  return number;
}

Status Store::update(const std::string& job, const JobState& state, const Json& event, int64_t now_ms) {
  sqlite3* db = impl_->db;
  STOKER_ASSIGN(Transaction transaction, Transaction::begin(db, "updating " + job));
  Statement change(db, "UPDATE jobs SET phase = ?, state = ? WHERE name = ?");
  if (change.bind(phase_name(state.phase)).bind(state.to_json().dump()).bind(job).step() != SQLITE_DONE)
    return impl_->error("updating " + job);
  Statement log(db, "INSERT INTO events (job, time_ms, event) VALUES (?, ?, ?)");
  if (log.bind(job).bind(now_ms).bind(event.dump()).step() != SQLITE_DONE)
    return impl_->error("updating " + job);
  if (!transaction.commit()) return impl_->error("updating " + job);
  return ok();
}

Status Store::remove(const std::string& job) {
  sqlite3* db = impl_->db;
  STOKER_ASSIGN(Transaction transaction, Transaction::begin(db, "removing " + job));
  for (const char* sql : {"DELETE FROM events WHERE job = ?", "DELETE FROM jobs WHERE name = ?"}) {
    Statement change(db, sql);
    if (change.bind(job).step() != SQLITE_DONE) return impl_->error("removing " + job);
  }
  if (!transaction.commit()) return impl_->error("removing " + job);
  return ok();
}

Result<std::vector<StoredJob>> Store::jobs() {
  std::vector<StoredJob> all;
  Statement select(impl_->db, "SELECT number, name, spec, state FROM jobs ORDER BY number");
  int result;
  while ((result = select.step()) == SQLITE_ROW) {
    StoredJob job;
    job.number = select.integer(0);
    std::string name = select.text(1);
    STOKER_ASSIGN(Json spec, parse_row(select.text(2), name));
    STOKER_ASSIGN(Json state, parse_row(select.text(3), name));
    STOKER_ASSIGN(job.spec, JobSpec::from_json(spec));
    STOKER_ASSIGN(job.state, JobState::from_json(state));
    all.push_back(std::move(job));
  }
  if (result != SQLITE_DONE) return impl_->error("reading jobs");
  return all;
}

Result<std::vector<Json>> Store::events(const std::string& job) {
  std::vector<Json> all;
  Statement select(impl_->db, "SELECT time_ms, event FROM events WHERE job = ? ORDER BY id");
  select.bind(job);
  int result;
  while ((result = select.step()) == SQLITE_ROW) {
    STOKER_ASSIGN(Json event, parse_row(select.text(1), job));
    event.set("time_ms", select.integer(0));
    all.push_back(std::move(event));
  }
  if (result != SQLITE_DONE) return impl_->error("reading events of " + job);
  return all;
}

Json event_json(const JobEvent& event) {
  Json json;
  if (auto* stop = std::get_if<StopAsked>(&event)) {
    json.set("kind", "stop_asked").set("reason", stop->reason);
  } else if (std::holds_alternative<Placed>(event)) {
    json.set("kind", "placed");
  } else if (auto* from = std::get_if<FromAgent>(&event)) {
    json.set("kind", "agent").set("host", from->host).set("agent_event", from->event.to_json());
  } else if (auto* lost = std::get_if<AgentLost>(&event)) {
    json.set("kind", "agent_lost").set("host", lost->host).set("message", lost->message);
  } else if (auto* silent = std::get_if<AgentSilent>(&event)) {
    json.set("kind", "agent_silent").set("host", silent->host).set("back", silent->back);
  } else if (auto* resized = std::get_if<Resized>(&event)) {
    json.set("kind", "resized").set("group", resized->group).set("to", resized->to).set("why", resized->why);
  } else if (auto* wanted = std::get_if<NotFree>(&event)) {
    json.set("kind", "not_free").set("group", wanted->group).set("why", wanted->why);
  }
  return json;
}

Result<JobEvent> event_from_json(const Json& json) {
  const std::string& kind = json["kind"].as_string();
  if (kind == "stop_asked") return JobEvent(StopAsked{json["reason"].as_string()});
  if (kind == "placed") return JobEvent(Placed{});
  if (kind == "agent_lost") return JobEvent(AgentLost{json["host"].as_string(), json["message"].as_string()});
  if (kind == "agent_silent") return JobEvent(AgentSilent{json["host"].as_string(), json["back"].as_bool()});
  if (kind == "resized")
    return JobEvent(Resized{json["group"].as_string(), json["to"].as_int(), json["why"].as_string()});
  if (kind == "not_free") return JobEvent(NotFree{json["group"].as_string(), json["why"].as_string()});
  if (kind == "agent") {
    STOKER_ASSIGN(agent::AgentEvent event, agent::AgentEvent::from_json(json["agent_event"]));
    return JobEvent(FromAgent{json["host"].as_string(), std::move(event)});
  }
  return invalid("unknown event '" + kind + "'");
}

}  // namespace stoker::control
