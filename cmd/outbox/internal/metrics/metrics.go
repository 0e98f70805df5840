// Package metrics tells Prometheus what forwarders do, and what is in their outboxes.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	namespace = "outbox"
	label     = "outbox"
)

// Metrics are those of a process, of any number of outboxes.
type Metrics struct {
	registry *prometheus.Registry

	forwarded, published, failed, retried, parked, dead, claimed *prometheus.CounterVec
	publishSeconds, settleSeconds                                *prometheus.HistogramVec
}

// New makes metrics with those of Go and of the process.
func New() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.forwarded = m.counter("forwarded_total", "Messages that the broker acknowledged, and that were settled.")
	m.published = m.counter("published_total", "Publishes that the broker acknowledged, settled or not.")
	m.failed = m.counter("publish_failures_total", "Publishes that failed.")
	m.retried = m.counter("retries_total", "Messages that failed, and were put back to be tried again.")
	m.parked = m.counter("parked_total", "Messages that were put behind a failed one of their key.")
	m.dead = m.counter("dead_letters_total", "Messages that became dead letters, those that followed their key included.")
	m.claimed = m.counter("claimed_total", "Messages that claims took.")
	m.publishSeconds = m.histogram("publish_duration_seconds", "Time that a publish took, failed ones included.")
	m.settleSeconds = m.histogram("settle_duration_seconds", "Time that a settlement took.")
	return m
}

func (m *Metrics) counter(name, help string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{label})
	m.registry.MustRegister(vec)
	return vec
}

func (m *Metrics) histogram(name, help string) *prometheus.HistogramVec {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help,
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16), // to 16 s, above the default timeout
	}, []string{label})
	m.registry.MustRegister(vec)
	return vec
}

// Handler serves them.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}
