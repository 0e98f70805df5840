package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const (
	statsTimeout = 5 * time.Second
	statsLease   = 10 * time.Second // how long statistics are good for, at least
	statsShare   = 20               // they take one part of the time in so many, at most
)

// Stats counts an outbox, not too often: counting reads all of it.
type Stats struct {
	read func(context.Context) (outbox.Stats, error)

	mu    sync.Mutex
	value Counted
	err   error
	until time.Time
}

// Counted are counts, and when that was.
type Counted struct {
	outbox.Stats
	At time.Time
}

// NewStats counts with read.
func NewStats(read func(context.Context) (outbox.Stats, error)) *Stats { return &Stats{read: read} }

// Get gives the counts, which may be some seconds old, or why they could not be read.
func (s *Stats) Get(ctx context.Context) (Counted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	if began.Before(s.until) {
		return s.value, s.err
	}
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	s.value.Stats, s.err = s.read(ctx)
	s.value.At = began
	s.until = time.Now().Add(max(statsLease, statsShare*time.Since(began)))
	return s.value, s.err
}

// collector reads the counts, and the health, when Prometheus asks.
type collector struct {
	stats  *Stats
	health func() error

	messages, quarantined, oldest, readable, healthy *prometheus.Desc
}

// Watch adds an outbox's counts, and whether its forwarder is well.
func (m *Metrics) Watch(name string, stats *Stats, health func() error) {
	describe := func(metric, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+metric, help, labels, prometheus.Labels{label: name})
	}
	m.registry.MustRegister(&collector{
		stats: stats, health: health,
		messages:    describe("messages", "Messages in the outbox by state; dead are the dead letters.", "state"),
		quarantined: describe("quarantined_keys", "Keys with dead letters that hold back what follows."),
		oldest:      describe("oldest_ready_age_seconds", "Longest time that a message could have been forwarded and was not."),
		readable:    describe("stats_up", "1 if the counts of messages could be read, else 0, and they are missing."),
		healthy:     describe("forwarder_healthy", "1 if the forwarder works or is idle, 0 if something is in its way."),
	})
}

// Describe tells what there may be.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.messages, c.quarantined, c.oldest, c.readable, c.healthy} {
		ch <- d
	}
}

// Collect reads the counts.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(c.healthy, oneIf(c.health() == nil))
	s, err := c.stats.Get(context.Background())
	gauge(c.readable, oneIf(err == nil))
	if err != nil {
		return
	}
	for state, n := range map[string]int64{
		"ready": s.Ready, "delayed": s.Delayed, "retrying": s.Retrying, "parked": s.Parked, "dead": s.Dead,
	} {
		gauge(c.messages, float64(n), state)
	}
	gauge(c.quarantined, float64(s.QuarantinedKeys))
	gauge(c.oldest, s.OldestReadyAge.Seconds())
}

func oneIf(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}
