package config

import (
	"time"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// Fields are all settings, in the order of the example file. Flags, variables, the file's keys, the help and the example
// are made of this table.
var Fields = []Field{
	{
		Name: "database", Part: Connections, Example: "postgres://outbox@localhost:5432/shop",
		Doc:   "PostgreSQL that the outbox is in: a URL, or keywords and values. PGPASSWORD and the like are honoured.",
		codec: dsn(func(t target) *string { return &t.outbox.Database }),
	},
	{
		Name: "broker", Part: Connections, Example: "kafka://localhost:9092",
		Doc:   "Broker to forward to, by its URL. BROKER_USER and BROKER_PASSWORD are honoured.",
		codec: address(func(t target) *string { return &t.outbox.Broker }),
	},
	{
		Name: "listen_dsn", Go: "ListenDSN", Part: Connections, Example: "postgres://outbox@db:5432/shop",
		Doc:   "Direct connection for LISTEN, if database goes through a pooler in transaction mode.",
		codec: dsn(func(t target) *string { return &t.forwarder().ListenDSN }),
	},

	{
		Name: "name", Part: Tables, Example: "shop",
		Doc:   "What logs, metrics and --outbox call this outbox. Defaults to its table with the schema.",
		codec: words(func(t target) *string { return &t.outbox.Name }),
	},
	{
		Name: "schema", Go: "Schema.Name", Part: Tables, Default: "public",
		Doc:   "PostgreSQL schema that the tables are in.",
		codec: words(func(t target) *string { return &t.forwarder().Schema.Name }),
	},
	{
		Name: "table", Go: "Schema.Table", Part: Tables, Default: "outbox",
		Doc:   "Name of the outbox table; the others have it with a suffix.",
		codec: words(func(t target) *string { return &t.forwarder().Schema.Table }),
	},
	{
		Name: "no_doorbell", Go: "Schema.NoDoorbell", Part: Tables, Default: "false",
		Doc:   "Migrate without the trigger that wakes forwarders: for two-phase commit.",
		codec: boolean(func(t target) *bool { return &t.forwarder().Schema.NoDoorbell }),
	},
	{
		Name: "topic_index", Go: "Schema.TopicIndex", Part: Tables, Default: "false",
		Doc:   "Migrate with the indexes that watermill-sql subscribers need; forwarding does not.",
		codec: boolean(func(t target) *bool { return &t.forwarder().Schema.TopicIndex }),
	},

	{
		Name: "workers", Go: "Workers", Part: Forwarding, Default: "4",
		Doc:   "Claims in flight, at most 64. Each holds a connection to the database.",
		codec: whole(func(t target) *int { return &t.forwarder().Workers }),
	},
	{
		Name: "batch_size", Go: "BatchSize", Part: Forwarding, Default: "500",
		Doc:   "Rows that a claim takes. Smaller ones make shorter transactions, larger ones cost less a message.",
		codec: whole(func(t target) *int { return &t.forwarder().BatchSize }),
	},
	{
		Name: "batch_bytes", Go: "BatchBytes", Part: Forwarding, Default: "32MiB",
		Doc:   "Budget of memory for messages in flight, shared by the workers. A larger message goes alone.",
		codec: size(func(t target) *int { return &t.forwarder().BatchBytes }),
	},
	{
		Name: "publish_concurrency", Go: "PublishConcurrency", Part: Forwarding, Default: "64",
		Doc:   "Publishes in flight of one worker; more for a broker that takes long to answer.",
		codec: whole(func(t target) *int { return &t.forwarder().PublishConcurrency }),
	},
	{
		Name: "publish_timeout", Go: "PublishTimeout", Part: Forwarding, Default: "10s",
		Doc:   "Time after which a publish counts as not acknowledged.",
		codec: duration(func(t target) *time.Duration { return &t.forwarder().PublishTimeout }),
	},
	{
		Name: "pass_timeout", Go: "PassTimeout", Part: Forwarding, Default: "10s",
		Doc:   "Time after which a claim starts no more publishes; its transaction is open for that long.",
		codec: duration(func(t target) *time.Duration { return &t.forwarder().PassTimeout }),
	},
	{
		Name: "poll_interval", Go: "PollInterval", Part: Forwarding, Default: "1s",
		Doc:   "Longest time that a message waits if its notification was lost.",
		codec: duration(func(t target) *time.Duration { return &t.forwarder().PollInterval }),
	},
	{
		Name: "poll_only", Go: "PollOnly", Part: Forwarding, Default: "false",
		Doc:   "Do without LISTEN, at the cost of latency.",
		codec: boolean(func(t target) *bool { return &t.forwarder().PollOnly }),
	},
	{
		Name: "max_per_second", Go: "MaxPerSecond", Part: Forwarding, Default: "0",
		Doc:   "Most publishes a second, to spare the broker; 0 is unlimited.",
		codec: float(func(t target) *float64 { return &t.forwarder().MaxPerSecond }),
	},
	{
		Name: "on_dead", Go: "OnDead", Part: Forwarding, Default: "quarantine",
		Doc: "What becomes of the later messages of a dead letter's key: quarantine (they follow it, in order) or continue (a gap).",
		codec: choice(func(t target) *outbox.DeadPolicy { return &t.forwarder().OnDead },
			[]outbox.DeadPolicy{outbox.QuarantineKey, outbox.ContinueKey}, "quarantine", "continue"),
	},
	{
		Name: "retry.max_attempts", Go: "Retry.MaxAttempts", Part: Forwarding, Default: "10",
		Doc:   "Failures after which a message becomes a dead letter, not counting outages; -1 never gives up.",
		codec: whole(func(t target) *int { return &t.forwarder().Retry.MaxAttempts }),
	},
	{
		Name: "retry.initial", Go: "Retry.Initial", Part: Forwarding, Default: "1s",
		Doc:   "Wait after the first failure.",
		codec: duration(func(t target) *time.Duration { return &t.forwarder().Retry.Initial }),
	},
	{
		Name: "retry.max", Go: "Retry.Max", Part: Forwarding, Default: "5m",
		Doc:   "Longest wait.",
		codec: duration(func(t target) *time.Duration { return &t.forwarder().Retry.Max }),
	},
	{
		Name: "retry.multiplier", Go: "Retry.Multiplier", Part: Forwarding, Default: "2",
		Doc:   "Growth of the wait from one failure to the next.",
		codec: float(func(t target) *float64 { return &t.forwarder().Retry.Multiplier }),
	},
	{
		Name: "retry.jitter", Go: "Retry.Jitter", Part: Forwarding, Default: "0.2",
		Doc:   "Share of the wait that is random, up to 1; -1 is none.",
		codec: share(func(t target) *float64 { return &t.forwarder().Retry.Jitter }),
	},
	{
		Name: "scan_from_zero", Go: "ScanFromZero", Part: Forwarding, Default: "false",
		Doc:   "Scan from the beginning at each claim: always right, but slow while a transaction is held open.",
		codec: boolean(func(t target) *bool { return &t.forwarder().ScanFromZero }),
	},
	{
		Name: "sweep_share", Go: "SweepShare", Part: Forwarding, Default: "0.01",
		Doc:   "Share of the time spent on looking for what others did to the tables by hand, up to 1; -1 is none.",
		codec: share(func(t target) *float64 { return &t.forwarder().SweepShare }),
	},
	{
		Name: "close_timeout", Go: "CloseTimeout", Part: Forwarding, Default: "30s",
		Doc:   "How long a stop waits for publishes in flight; below what the orchestrator grants before it kills.",
		codec: duration(func(t target) *time.Duration { return &t.forwarder().CloseTimeout }),
	},

	{
		Name: "http", Part: Program, Example: ":8080",
		Doc:   "Address to serve /healthz, /readyz and /metrics (Prometheus) at. Defaults to none.",
		codec: words(func(t target) *string { return &t.process.HTTP }),
	},
	{
		Name: "log_format", Part: Program, Default: "text",
		Doc:   "How forward logs, to standard error: text or json.",
		codec: choice(func(t target) *string { return &t.process.LogFormat }, []string{"", "json"}, "text", "json"),
	},
	{
		Name: "log_level", Part: Program, Default: "info",
		Doc: "Least of what is logged: debug, info, warn or error.",
		codec: choice(func(t target) *string { return &t.process.LogLevel },
			[]string{"", "debug", "warn", "error"}, "info", "debug", "warn", "error"),
	},
	{
		Name: "progress", Part: Program, Default: "30s",
		Doc:   "Time between two lines of progress where there is no terminal; -1s is none.",
		codec: duration(func(t target) *time.Duration { return &t.process.Progress }),
	},
}
