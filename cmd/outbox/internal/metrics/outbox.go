package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// Outbox is the hook of one outbox's forwarder.
type Outbox struct {
	forwarded, published, failed, retried, parked, dead, claimed prometheus.Counter
	publishSeconds, settleSeconds                                prometheus.Observer

	counts struct{ forwarded, failed, dead atomic.Int64 }
}

var (
	_ outbox.ClaimHook      = (*Outbox)(nil)
	_ outbox.PublishHook    = (*Outbox)(nil)
	_ outbox.SettleHook     = (*Outbox)(nil)
	_ outbox.DeadLetterHook = (*Outbox)(nil)
)

// Outbox gives the hook of the outbox with that name.
func (m *Metrics) Outbox(name string) *Outbox {
	return &Outbox{
		forwarded: m.forwarded.WithLabelValues(name), published: m.published.WithLabelValues(name),
		failed: m.failed.WithLabelValues(name), retried: m.retried.WithLabelValues(name),
		parked: m.parked.WithLabelValues(name), dead: m.dead.WithLabelValues(name),
		claimed:        m.claimed.WithLabelValues(name),
		publishSeconds: m.publishSeconds.WithLabelValues(name), settleSeconds: m.settleSeconds.WithLabelValues(name),
	}
}

// Counts are the numbers since the start.
type Counts struct{ Forwarded, Failed, Dead int64 }

// Counts gives what there is so far.
func (o *Outbox) Counts() Counts {
	return Counts{o.counts.forwarded.Load(), o.counts.failed.Load(), o.counts.dead.Load()}
}

// OnClaim counts what was taken.
func (o *Outbox) OnClaim(e outbox.ClaimEvent) { o.claimed.Add(float64(e.Rows)) }

// OnPublish counts a publish.
func (o *Outbox) OnPublish(e outbox.PublishEvent) {
	o.publishSeconds.Observe(e.Duration.Seconds())
	if e.Err != nil {
		o.failed.Inc()
		o.counts.failed.Add(1)
		return
	}
	o.published.Inc()
}

// OnSettle counts what was committed.
func (o *Outbox) OnSettle(e outbox.SettleEvent) {
	o.settleSeconds.Observe(e.Duration.Seconds())
	if e.Err != nil {
		return
	}
	o.forwarded.Add(float64(e.Acked))
	o.counts.forwarded.Add(int64(e.Acked))
	o.retried.Add(float64(e.Retried))
	o.parked.Add(float64(e.Parked))
}

// OnDeadLetter counts one.
func (o *Outbox) OnDeadLetter(outbox.DeadLetterEvent) {
	o.dead.Inc()
	o.counts.dead.Add(1)
}
