package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/metrics"
)

func (a *app) forward() *cobra.Command {
	c := &cobra.Command{
		Use: "forward", Short: "Forward messages to a broker", Args: cobra.NoArgs,
		Long: `Forwards committed messages to a broker until it is told to stop, by SIGTERM or SIGINT: then the publishes in flight may
end within close_timeout. Another signal, a second or more after the first, ends it at once, as a crash would; nothing is
lost by that, but some messages are sent again.

Any number of forwarders may share an outbox. An outage of database or broker is waited for. The database role needs what
"outbox grants --role forwarder" gives, and no more; the pool's size is set as needed: workers + 1, and one to count.`,
		Example: `  outbox forward --database postgres://forwarder@localhost/shop --broker kafka://localhost:9092
  outbox forward --config outbox.yaml --http :8080 --log-format json
  OUTBOX_DATABASE=postgres://forwarder@localhost/shop outbox forward --broker nats://localhost:4222 --workers 8
  outbox forward --config outbox.yaml --once     # until nothing is left, for cron`,
	}
	a.settings(c, everything)
	a.selects(c)
	once := c.Flags().Bool("once", false, "forward what is there, and end")
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings, err := a.load(c.Context(), config.Input{Database: true, Broker: true})
		if err != nil {
			return err
		}
		return a.forwardAll(c.Context(), settings, *once)
	}
	return c
}

// line is one outbox on its way to its broker.
type line struct {
	outbox    config.Outbox
	pool      *pgxpool.Pool // the forwarder's
	spare     *pgxpool.Pool // for counting, so that the forwarder need not wait
	broker    broker.Broker
	forwarder *outbox.Forwarder
	hook      *metrics.Outbox
	stats     *metrics.Stats
	stopping  atomic.Bool
}

func (a *app) forwardAll(ctx context.Context, settings *config.Config, once bool) (err error) {
	logger := a.logger(settings.Process)
	measures := metrics.New()
	var lines []*line
	defer func() {
		for _, l := range lines {
			err = errors.Join(err, l.close())
		}
	}()
	for _, o := range settings.Outboxes {
		l, err := a.openLine(context.WithoutCancel(ctx), o, measures, logger)
		if err != nil {
			return err
		}
		lines = append(lines, l)
	}
	server, err := serve(settings.HTTP, lines, measures, logger)
	if err != nil {
		return err
	}
	defer server.close()
	watch := a.progress(settings.Progress, lines, logger)
	defer watch()
	running, ctx := errgroup.WithContext(ctx)
	for _, l := range lines {
		running.Go(func() error { return l.run(ctx, once, logger) })
	}
	return running.Wait()
}

func (a *app) logger(process config.Process) *slog.Logger {
	options := &slog.HandlerOptions{Level: map[string]slog.Level{
		"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError,
	}[process.LogLevel]}
	if process.LogFormat == "json" {
		a.logs = slog.New(slog.NewJSONHandler(a.screen, options))
		return a.logs
	}
	return slog.New(slog.NewTextHandler(a.screen, options))
}

func (a *app) openLine(ctx context.Context, o config.Outbox, measures *metrics.Metrics, logger *slog.Logger) (*line, error) {
	l := &line{outbox: o, hook: measures.Outbox(o.Name)}
	fail := func(err error) (*line, error) {
		return nil, errors.Join(fmt.Errorf("%s: %w", o.Name, err), l.close())
	}
	var err error
	adapter := watermill.NewSlogLogger(logger.With("outbox", o.Name))
	if l.pool, err = open(ctx, o, o.Connections()); err != nil {
		return fail(err)
	}
	if l.spare, err = open(ctx, o, 1); err != nil {
		return fail(err)
	}
	if l.broker, err = a.Brokers.Open(ctx, o.Broker, broker.Options{Logger: adapter}); err != nil {
		return fail(err)
	}
	forwarding := o.Forwarder
	forwarding.Classify = l.broker.Classify
	forwarding.Hooks = []outbox.Hook{l.hook}
	if l.forwarder, err = outbox.NewForwarder(l.pool, l.broker.Publisher(), forwarding, adapter); err != nil {
		return fail(err)
	}
	l.stats = metrics.NewStats(func(ctx context.Context) (outbox.Stats, error) {
		return outbox.ReadStats(ctx, l.spare, o.Forwarder.Schema)
	})
	measures.Watch(o.Name, l.stats, l.forwarder.Health)
	return l, nil
}

// run forwards until ctx is done; an unfit schema is an error.
func (l *line) run(ctx context.Context, once bool, logger *slog.Logger) error {
	began := time.Now()
	logger = logger.With("outbox", l.outbox.Name)
	var err error
	if once {
		_, err = l.forwarder.RunOnce(ctx)
	} else {
		stop := context.AfterFunc(ctx, func() {
			l.stopping.Store(true)
			logger.Info("Stopping; publishes in flight may end")
		})
		defer stop()
		go l.announce(ctx, logger)
		err = l.forwarder.Run(ctx)
	}
	counts := l.hook.Counts()
	logger.Info("Stopped", "forwarded", counts.Forwarded, "failed_publishes", counts.Failed, "dead", counts.Dead,
		"after", time.Since(began).Round(time.Millisecond).String())
	if err != nil {
		return fmt.Errorf("%s: %w", l.outbox.Name, err)
	}
	return nil
}

// announce tells that the forwarder runs.
func (l *line) announce(ctx context.Context, logger *slog.Logger) {
	select {
	case <-l.forwarder.Running():
		logger.Info("Forwarding", "table", l.outbox.Forwarder.Schema.String(), "broker", config.Redacted(l.outbox.Broker),
			"workers", l.outbox.Connections()-1)
	case <-ctx.Done():
	}
}

// close closes what was opened, after the forwarder has ended.
func (l *line) close() error {
	var err error
	if l.broker != nil {
		err = l.broker.Close()
	}
	for _, pool := range []*pgxpool.Pool{l.pool, l.spare} {
		if pool != nil {
			pool.Close()
		}
	}
	return err
}
