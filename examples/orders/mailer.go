package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
)

// email is the payload of the command to send it.
type email struct {
	OrderID string `json:"order_id"`
	To      string `json:"to"`
	Text    string `json:"text"`
}

// mailer sends emails: the world outside, which no transaction reaches. Whoever sends for you should know an idempotency key,
// as most providers do: it sends once by key, and says yes when it is asked again. With one that does not, an email may be
// sent twice after a crash, and nothing on this side can change that.
type mailer interface {
	Send(ctx context.Context, idempotencyKey string, e email) error
}

// fakeMailer only says that it sends. It loses one answer in failEvery, if that is set.
type fakeMailer struct {
	logger    *slog.Logger
	failEvery int

	mu    sync.Mutex
	calls int
	sent  map[string]email // by idempotency key
}

var errNoAnswer = errors.New("the mail provider did not answer")

func (m *fakeMailer) Send(ctx context.Context, idempotencyKey string, e email) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if _, known := m.sent[idempotencyKey]; !known {
		if m.sent == nil {
			m.sent = map[string]email{}
		}
		m.sent[idempotencyKey] = e
		m.logger.InfoContext(ctx, "Email sent", "to", e.To, "text", e.Text)
	}
	if m.failEvery > 0 && m.calls%m.failEvery == 0 {
		return errNoAnswer // though the email is on its way
	}
	return nil
}

// tally gives how often it was called, how many emails it sent about orders whose ids begin so, and about how many of them.
func (m *fakeMailer) tally(ids string) (calls, sent, about int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	orders := map[string]bool{}
	for _, e := range m.sent {
		if strings.HasPrefix(e.OrderID, ids) {
			orders[e.OrderID] = true
			sent++
		}
	}
	return m.calls, sent, len(orders)
}
