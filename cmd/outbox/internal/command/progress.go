package command

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/metrics"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/screen"
)

const (
	defaultProgress = 30 * time.Second
	liveProgress    = time.Second
)

// progress tells now and then how far the lines are, until the returned function is called: on a terminal in the line that
// changes, elsewhere by the log.
func (a *app) progress(every time.Duration, lines []*line, logger *slog.Logger) (stop func()) {
	switch {
	case a.screen.Live():
		every = liveProgress
	case every < 0:
		return func() {}
	case every == 0:
		every = defaultProgress
	}
	ctx, cancel := context.WithCancel(context.Background())
	meters := make([]*meter, len(lines))
	var background sync.WaitGroup
	for i, l := range lines {
		meters[i] = &meter{line: l, since: time.Now()}
		if a.screen.Live() {
			background.Go(func() { meters[i].keepCounting(ctx, every) })
		}
	}
	background.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				a.screen.Status("")
				return
			case <-ticker.C:
			}
			if a.screen.Live() {
				a.screen.Status(liveLine(meters))
				continue
			}
			var counting sync.WaitGroup
			for _, m := range meters {
				counting.Go(func() { m.count(ctx) })
			}
			counting.Wait()
			for _, m := range meters {
				logger.Info("Progress", m.look().attributes()...)
			}
		}
	})
	return func() { cancel(); background.Wait() }
}

// meter measures a line.
type meter struct {
	line  *line
	last  metrics.Counts
	since time.Time
	stats atomic.Pointer[metrics.Counted] // nil: not known
}

// count counts what is in the outbox; that may take its time.
func (m *meter) count(ctx context.Context) {
	if stats, err := m.line.stats.Get(ctx); err == nil {
		m.stats.Store(&stats)
	} else {
		m.stats.Store(nil)
	}
}

// keepCounting counts beside a line that must not wait for it.
func (m *meter) keepCounting(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		m.count(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// reading is what a meter shows.
type reading struct {
	name   string
	rate   float64 // forwarded a second since the last reading
	counts metrics.Counts
	stats  *metrics.Counted
	health error
}

func (m *meter) look() reading {
	now, counts := time.Now(), m.line.hook.Counts()
	r := reading{name: m.line.outbox.Name, counts: counts, stats: m.stats.Load(), health: m.line.forwarder.Health()}
	r.rate = float64(counts.Forwarded-m.last.Forwarded) / max(now.Sub(m.since).Seconds(), 1e-3)
	m.last, m.since = counts, now
	return r
}

func (r reading) attributes() []any {
	attributes := []any{
		"outbox", r.name, "forwarded_per_second", int64(r.rate), "forwarded", r.counts.Forwarded, "failed_publishes", r.counts.Failed,
	}
	if r.stats != nil {
		waiting := r.stats.Delayed + r.stats.Retrying + r.stats.Parked
		attributes = append(attributes, "ready", r.stats.Ready, "waiting", waiting, "dead", r.stats.Dead)
		if age := time.Since(r.stats.At); age >= time.Second { // counting is rationed, for it reads all of the table
			attributes = append(attributes, "counted_ago", age.Round(time.Second).String())
		}
	}
	if r.health != nil {
		attributes = append(attributes, "trouble", r.health.Error())
	}
	return attributes
}

func liveLine(meters []*meter) string {
	parts := make([]string, len(meters))
	for i, m := range meters {
		r := m.look()
		parts[i] = screen.Sprintf("%s: %.0f/s, %d forwarded", r.name, r.rate, r.counts.Forwarded)
		if r.stats != nil {
			parts[i] += screen.Sprintf(", %d ready, %d dead", r.stats.Ready, r.stats.Dead)
		}
		if r.health != nil {
			parts[i] += ", in trouble"
		}
	}
	return strings.Join(parts, " | ")
}
