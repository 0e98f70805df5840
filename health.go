package outbox

import "sync"

// health is why a forwarder does not get on at present, by what is in the way.
type health struct{ database, broker trouble }

func (h *health) get() error {
	if err := h.database.get(); err != nil {
		return err
	}
	return h.broker.get()
}

// trouble is one present error, or none.
type trouble struct {
	mu  sync.Mutex
	err error
}

func (t *trouble) get() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// set says whether the trouble is a new one.
func (t *trouble) set(err error) (isNew bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	isNew = err != nil && (t.err == nil || t.err.Error() != err.Error())
	t.err = err
	return isNew
}
