package tests

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// SQLSTATEs.
const (
	noPrivilege   = "42501"
	notInRecovery = "0A000" // feature_not_supported: what a standby says to READ WRITE
)

// The server goes away under load, orderly or not, and comes back.
func TestTheServerGoesAwayUnderLoad(t *testing.T) {
	for name, away := range map[string]func(*pgtest.Server) error{
		"restarted": func(*pgtest.Server) error { return nil },
		"killed":    (*pgtest.Server).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			const workers, times = 4, 3
			server := testdb.Dedicated(t)
			s := newSite(t, server.URL, server.URL)
			s.forwarder = s.newForwarder(t, server.URL, workers)
			writers := &load{pool: s.pool, keys: 50, writers: 4, rows: 5, until: make(chan struct{}), tolerant: true}
			writers.prepare(t)
			writers.begin(t)
			start(t, s.forwarder)
			for range times {
				await(t, "messages flow", s.ledger.reached(s.ledger.count()+500))
				require.NoError(t, away(server))
				require.NoError(t, server.Restart(t.Context()))
				s.pool.Reset()
			}
			await(t, "messages flow", s.ledger.reached(s.ledger.count()+500))
			close(writers.until)
			s.written = writers.end(t)
			result := s.awaitPeace(t)
			require.LessOrEqual(t, result.duplicates, s.ledger.inFlight(forwarderName), "sent again without having been in flight")
			require.LessOrEqual(t, result.duplicates, times*workers*500)
		})
	}
}

// After a failover the address may lead to a standby, which refuses to write, until it is promoted. That inherited
// default_transaction_read_only does not even count is the claim's own doing: it begins READ WRITE.
func TestAStandbyAnswersForAWhile(t *testing.T) {
	server := testdb.Dedicated(t, "default_transaction_read_only=on")
	writable := server.URL + "&default_transaction_read_only=off"
	s := newSite(t, writable, server.URL)
	s.put(t, messages)
	acknowledged, settle := s.gate.shut(t, messages)
	start(t, s.forwarder)
	await(t, "the broker has everything", acknowledged)

	var folder string
	require.NoError(t, s.pool.QueryRow(t.Context(), `SHOW data_directory`).Scan(&folder))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "standby.signal"), nil, 0o600))
	require.NoError(t, server.Restart(t.Context()))
	s.pool.Reset()
	settle()
	eventually(t, "the standby has refused to write", func() bool { return pgCode(s.forwarder.Health()) == notInRecovery })
	s.requireUntouched(t, messages)
	execute(t, s.pool, `SELECT pg_promote()`)
	require.Equal(t, messages, s.awaitPeace(t).duplicates, "each comes once more, with its uuid")
}

// Privileges that are missing for a while are no fault of the messages', whether the claim meets it or the settlement.
func TestPrivilegesRevokedForAWhile(t *testing.T) {
	url := testdb.URL(t)
	role, roleURL := testdb.Role(t, url)
	s := newSite(t, url, url)
	s.forwarder = s.newForwarder(t, roleURL, 1)
	grants, err := outbox.Grants(outbox.Schema{}, outbox.RoleForwarder, role)
	require.NoError(t, err)
	execute(t, s.pool, grants)
	s.put(t, messages)
	acknowledged, settle := s.gate.shut(t, messages)
	start(t, s.forwarder)
	await(t, "the broker has everything", acknowledged)

	execute(t, s.pool, `REVOKE DELETE ON public.outbox FROM `+quoted(role))
	settle()
	eventually(t, "the settlement is refused", func() bool { return pgCode(s.forwarder.Health()) == noPrivilege })
	s.requireUntouched(t, messages)
	execute(t, s.pool, `REVOKE SELECT ON public.outbox FROM `+quoted(role))
	eventually(t, "the claim is refused", func() bool { return s.charges.claimsRefused.Load() > 0 })
	execute(t, s.pool, grants)
	require.GreaterOrEqual(t, s.awaitPeace(t).duplicates, messages, "each comes again, with its uuid")
}
