package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
)

const (
	childVariable    = "OUTBOX_BENCH_CHILD"
	childURLVariable = "OUTBOX_BENCH_URL"
	childPoolSize    = 8

	childOurs  = "ours"
	childStock = "stock"
)

// childOrder says what a child is to forward.
type childOrder struct {
	Relay, Namespace string
	Load             measure.Load
}

// childReport says how it went.
type childReport struct {
	Name string
	Peak int64 // bytes resident
	Seen measure.Seen
}

func (o childOrder) environment(url string) ([]string, error) {
	order, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode the child's order: %w", err)
	}
	return []string{childVariable + "=" + string(order), childURLVariable + "=" + url}, nil
}

func parseReport(output []byte) (childReport, error) {
	var r childReport
	if err := json.Unmarshal(output, &r); err != nil {
		return r, fmt.Errorf("decode the child's report: %w", err)
	}
	return r, nil
}

func childRelay(kind string, place relay.Place) (relay.Relay, error) {
	switch kind {
	case childOurs:
		return relay.NewOurs(place, "", outbox.ForwarderConfig{})
	case childStock:
		return relay.NewStockQueue(place, 100, 0), nil
	default:
		return nil, fmt.Errorf("no relay %q for a child", kind)
	}
}

// IsChild says that this process was started by another one to forward for it, and to do nothing else.
func IsChild() bool { return os.Getenv(childVariable) != "" }

// RunChild forwards what the order in the environment says, and writes its report.
func RunChild(ctx context.Context, stdout io.Writer) error {
	var order childOrder
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &order); err != nil {
		return fmt.Errorf("decode the order: %w", err)
	}
	config, err := pgxpool.ParseConfig(os.Getenv(childURLVariable))
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	config.MaxConns = childPoolSize
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer pool.Close()
	r, err := childRelay(order.Relay, relay.At(pool, order.Namespace))
	if err != nil {
		return err
	}
	ledger := measure.NewLedger(order.Load.Count, order.Load.Keys)
	run := start(ctx, r, measure.Broker{Ledger: ledger})
	defer run.cancel()
	if err := run.wait(ctx, ledger.Reached(order.Load.Count)); err != nil {
		return err
	}
	env := &Env{Pool: pool}
	if err := env.settled(ctx, r); err != nil {
		return err
	}
	if err := run.stop(); err != nil {
		return err
	}
	peak, err := peakMemory()
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(childReport{Peak: peak, Seen: ledger.Seen()})
}
