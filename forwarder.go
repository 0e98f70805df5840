package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/time/rate"

	"github.com/watermill-outbox/watermill-outbox/internal/claim"
	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
	"github.com/watermill-outbox/watermill-outbox/internal/wake"
)

var (
	errNilContext = errors.New("outbox: ctx: it is nil; pass context.Background()")
	errNilPool    = errors.New("outbox: pool: it is nil")
	errNilDB      = errors.New("outbox: db: it is nil")
	errDeaf       = errors.New("outbox: ListenDSN: LISTEN succeeds, but what is notified through the pool never comes, as behind a " +
		"pooler in transaction mode; set ListenDSN to a direct connection to the same database, or PollOnly")
)

// burstsPerSecond is in how many parts a second's messages may come, by a BatchPublisher under MaxPerSecond.
const burstsPerSecond = 5

// Forwarder moves committed messages from the outbox to a broker: each at least once, those of one key in order, each
// settled only after the broker acknowledged that very message. Any number of forwarders, in any number of processes, may
// share one outbox. All methods are safe for concurrent use.
type Forwarder struct {
	pool      *pgxpool.Pool
	publisher message.Publisher
	batches   BatchPublisher // nil: one message at a time
	config    ForwarderConfig
	logger    watermill.LoggerAdapter

	sql       pgsql.Statements
	book      *claim.Book
	evidence  *evidence
	bell      *wake.Bell
	limiter   *rate.Limiter // nil: unlimited
	chain     message.HandlerFunc
	hooks     hookSet
	taken     [claim.Lanes]atomic.Bool // by claims of this process: a hint of where not to look
	oversized chan struct{}            // holds a token while one message above a worker's share of BatchBytes is in memory
	abandoned atomic.Int64             // publishes that outlived their timeout and have not returned yet
	doorbell  atomic.Bool              // the schema has one
	health    health
	sweeps    sweeps

	running chan struct{}
	life    lifecycle
}

// NewForwarder makes a forwarder. It does no I/O; all problems of the config are reported at once. A nil logger logs
// nothing. The caller keeps pool and publisher, and closes them after the forwarder.
func NewForwarder(pool *pgxpool.Pool, publisher message.Publisher, config ForwarderConfig, logger watermill.LoggerAdapter) (*Forwarder, error) {
	problems := []error{config.Validate()}
	config = config.withDefaults()
	if pool == nil {
		problems = append(problems, errNilPool)
	} else if have := int(pool.Config().MaxConns); have < config.Workers+1 {
		problems = append(problems, fmt.Errorf("outbox: Workers: %d workers need a pool with MaxConns of at least %d, it has %d", config.Workers, config.Workers+1, have))
	}
	if publisher == nil {
		problems = append(problems, errors.New("outbox: publisher: it is nil"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	f := &Forwarder{
		pool:      pool,
		publisher: publisher,
		config:    config,
		logger:    logger.With(watermill.LogFields{"table": config.Schema.String()}),
		sql:       pgsql.Render(config.Schema.names()),
		book:      claim.NewBook(),
		evidence:  newEvidence(),
		bell:      wake.NewBell(),
		chain:     chain(publisher, config.Middlewares),
		hooks:     newHookSet(config.Hooks),
		oversized: make(chan struct{}, 1),
		sweeps:    sweeps{share: config.SweepShare},
		running:   make(chan struct{}),
		life:      lifecycle{closing: make(chan struct{})},
	}
	if len(config.Middlewares) == 0 {
		f.batches, _ = publisher.(BatchPublisher)
	}
	if config.MaxPerSecond > 0 {
		burst := 1
		if f.batches != nil { // else what may be sent while a batch is on its way would be lost
			burst = max(1, int(config.MaxPerSecond/burstsPerSecond))
		}
		f.limiter = rate.NewLimiter(rate.Limit(config.MaxPerSecond), burst)
	}
	return f, nil
}

// Run forwards until ctx is done or Close is called; both are the same graceful stop: no further publish starts, those in
// flight may end within CloseTimeout, what was acknowledged is settled, and Run returns nil. It returns ErrClosed after
// Close, ErrAlreadyRunning when it runs already, an error wrapping ErrSchemaVersion when the schema is unfit, and
// ErrCloseTimeout when publishes in flight outlived CloseTimeout. Everything else (an outage of the database or of the
// broker) is retried, and shown by Health.
func (f *Forwarder) Run(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	run, err := f.life.begin(ctx, f.config.CloseTimeout, true)
	if err != nil {
		return err
	}
	if err := f.awaitSchema(run); err != nil {
		return run.end(err)
	}
	var background sync.WaitGroup
	listener := f.listen(run.stop, &background)
	var workers sync.WaitGroup
	idle := &idleCount{}
	for range f.config.Workers {
		w := f.newWorker(run, listener, idle)
		workers.Go(w.loop)
	}
	f.life.announce(f.running)
	workers.Wait()
	background.Wait()
	return run.end(nil)
}

// RunOnce forwards until a pass finds nothing claimable here, and returns the number of messages that were acknowledged.
// Failures of messages are no error; an outage of the broker or of the database is, and so is a stop. For tests, cron jobs
// and serverless functions; it may run beside Run.
func (f *Forwarder) RunOnce(ctx context.Context) (forwarded int, err error) {
	if ctx == nil {
		return 0, errNilContext
	}
	run, err := f.life.begin(ctx, f.config.CloseTimeout, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = run.end(err) }()
	if err := f.checkSchema(run.stop); err != nil {
		return 0, err
	}
	w := f.newWorker(run, nil, nil)
	w.lanes = claim.Lanes
	return w.once()
}

// Running is closed once Run has checked the schema and started its workers.
func (f *Forwarder) Running() chan struct{} { return f.running }

// Wake makes an idle forwarder look for messages now. For writers in the same process; it never blocks.
func (f *Forwarder) Wake() { f.bell.Ring() }

// Health is nil while the forwarder works or is idle, and else the reason why it does not get on: the database's error, or
// the broker's.
func (f *Forwarder) Health() error { return f.health.get() }

// Close stops Run and RunOnce as the end of their contexts does, and waits until they have returned. Every call waits like
// the first and returns the same. It does not close the pool or the publisher.
func (f *Forwarder) Close() error { return f.life.close() }

// awaitSchema checks the schema, for as long as the database can't be asked.
func (f *Forwarder) awaitSchema(run *run) error {
	back := backoff{first: databaseWaitFirst, most: databaseWaitMost}
	for {
		err := f.checkSchema(run.stop)
		if err == nil || run.stop.Err() != nil {
			return nil //nolint:nilerr // a stop is no error
		}
		if errors.Is(err, ErrSchemaVersion) {
			return err
		}
		f.unwell(&f.health.database, err)
		back.wait(run.stop)
	}
}

func (f *Forwarder) checkSchema(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	info, err := inspectSchema(ctx, f.pool, f.config.Schema)
	if err != nil {
		return err
	}
	f.doorbell.Store(info.doorbell && !f.config.PollOnly)
	f.health.database.set(nil)
	return nil
}

// unwell notes and logs why the forwarder does not get on; the same trouble only once.
func (f *Forwarder) unwell(part *trouble, err error) {
	if part.set(err) {
		f.logger.Error("The forwarder does not get on; it keeps trying", err, nil)
	}
}

// listen starts the listener, if there is a bell to hear.
func (f *Forwarder) listen(stop context.Context, background *sync.WaitGroup) *wake.Listener {
	if !f.doorbell.Load() {
		return nil
	}
	listener := &wake.Listener{Connect: f.connectListener, Listen: f.sql.ListenBell, Bell: f.bell, Notify: f.ringBell,
		Failed: func(err error) {
			f.logger.Info("Not listening for new messages; polling until that works again", watermill.LogFields{"err": err})
		},
		Deaf: func() { f.logger.Error("Not hearing of new messages; polling instead", errDeaf, nil) },
	}
	background.Go(func() { listener.Run(stop) })
	return listener
}

// ringBell notifies the listeners as a writer would, on a connection like the writers'.
func (f *Forwarder) ringBell(ctx context.Context) error {
	_, err := f.pool.Exec(ctx, f.sql.NotifyBell)
	return err
}
