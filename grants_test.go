package outbox_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

const (
	writer    = outbox.RoleWriter
	forwards  = outbox.RoleForwarder
	consumer  = outbox.RoleConsumer
	operator  = outbox.RoleOperator
	takes     = outbox.RoleSubscriber
	nobodyYet = outbox.Role(0)
)

func roles(list ...outbox.Role) []outbox.Role { return list }

var everybody = roles(writer, forwards, consumer, operator, takes)

// ofTheLibrary says which roles may execute which of the library's own statements.
var ofTheLibrary = map[string][]outbox.Role{
	"Insert": roles(writer, consumer), "InsertOne": roles(writer, consumer),
	"Begin": everybody, "Settings": everybody, "ChooseLanes": roles(forwards), "ClaimFree": roles(forwards, operator), "ClaimAround": roles(forwards, operator),
	"Delete": roles(forwards, takes), "Retry": roles(forwards, operator, takes), "Park": roles(forwards, operator, takes), "Bury": roles(forwards),
	"Repark": roles(forwards, operator, takes), "Release": roles(forwards, operator, takes),
	"Take": roles(forwards, operator, takes), "DeleteTaken": roles(forwards, takes), "DeleteAcked": roles(forwards, takes), "LockReleased": everybody,
	"ReleaseAcked": roles(forwards, operator, takes), "PlainPlans": everybody, "Nothing": everybody,
	"AssignXid": everybody, "StuckKeys": roles(forwards, operator, takes), "ReadBell": roles(forwards), "SetBell": roles(forwards),
	"Stats": roles(forwards, operator), "ListenBell": everybody, "NotifyBell": everybody, "Versions": roles(forwards, consumer, operator),
	"Receive": roles(consumer), "ReceiveText": roles(consumer),
	"Prune": roles(consumer), "Database": everybody,
	"DeadSettings": everybody, "DeadList": roles(forwards, operator), "DeadLock": roles(forwards, operator),
	"DeadRequeue": roles(operator), "DeadDiscard": roles(operator),
	"Inspect": everybody, "Privileges": everybody, "Installed": everybody,
	"ReadWrite": everybody, "MigrateLock": everybody, "CreateSchema": roles(),
}

// ofAnyone is what a role might wish to do by hand.
var ofAnyone = map[string][]outbox.Role{
	"SELECT 1 FROM {outbox}": roles(forwards, operator, takes),
	"INSERT INTO {outbox} (topic, uuid) VALUES ('t', 'by another tool')":   roles(writer, consumer),
	"INSERT INTO {outbox} (id, topic, uuid) VALUES (1, 't', 'again')":      roles(writer, consumer, operator),
	"INSERT INTO {outbox} (topic, uuid) VALUES ('t', 'read') RETURNING id": roles(),
	"UPDATE {outbox} SET attempts = 0":                                     roles(forwards, operator, takes),
	"DELETE FROM {outbox}":                                                 roles(forwards, takes),
	"SELECT last_value FROM {sequence}":                                    roles(forwards),
	"SELECT setval({sequence_literal}, 1)":                                 roles(),
	"SELECT setval({doorbell_literal}, 1, true)":                           roles(forwards),
	"SELECT 1 FROM {dead}":                                                 roles(forwards, operator),
	"SELECT 1 FROM {dead} FOR UPDATE SKIP LOCKED":                          roles(),
	"UPDATE {dead} SET tail = true":                                        roles(),
	"DELETE FROM {dead}":                                                   roles(operator),
	"SELECT 1 FROM {inbox}":                                                roles(consumer),
	"INSERT INTO {inbox} VALUES ('c', 'h', 'm') ON CONFLICT DO NOTHING":    roles(consumer),
	"DELETE FROM {inbox} WHERE received_at < now()":                        roles(consumer),
	"UPDATE {inbox} SET consumer = 'c'":                                    roles(),
	"SELECT version FROM {migrations}":                                     roles(forwards, consumer, operator),
	"INSERT INTO {migrations} VALUES (9, 'n')":                             roles(),
	"DELETE FROM {migrations}":                                             roles(),
	"CREATE TABLE {schema}.mine ()":                                        roles(),
	"DROP SEQUENCE {doorbell}":                                             roles(),
	"TRUNCATE {outbox}":                                                    roles(),
	"TRUNCATE {dead}":                                                      roles(),
	"TRUNCATE {inbox}":                                                     roles(),
	"ALTER TABLE {outbox} DISABLE TRIGGER ALL":                             roles(),
	"DROP TABLE {outbox}":                                                  roles(),
}

// permitted executes a statement in a transaction that is rolled back, with NULL for all parameters. Privileges are
// checked before anything is executed, so any other error is of no interest.
func permitted(t *testing.T, pool *pgxpool.Pool, statement string) bool {
	t.Helper()
	undo := errors.New("undo")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT set_config('outbox.lanes', '{}', true)"); err != nil { // for the claim
			return err
		}
		description, err := tx.Conn().Prepare(t.Context(), "", statement)
		if err == nil {
			_, err = tx.Exec(t.Context(), statement, make([]any, len(description.ParamOIDs))...)
		}
		return errors.Join(err, undo)
	})
	require.ErrorIs(t, err, undo)
	var pgErr *pgconn.PgError
	return !errors.As(err, &pgErr) || pgErr.Code != "42501" // insufficient_privilege
}

// grantedPool gives a pool of a new role with a role's grants.
func grantedPool(t *testing.T, url string, schema outbox.Schema, role outbox.Role) *pgxpool.Pool {
	t.Helper()
	name, roleURL := testdb.Role(t, url)
	if role != nobodyYet {
		grants, err := outbox.Grants(schema, role, name)
		require.NoError(t, err)
		execute(t, testdb.Open(t, url), grants, grants) // twice does no harm
	}
	return testdb.Open(t, roleURL)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func TestEachRoleMayDoItsWorkAndNothingElse(t *testing.T) {
	t.Parallel()
	schema := outbox.Schema{Name: "Shop's", Table: `Out-Box"`}
	names := pgsql.Names{Schema: schema.Name, Table: schema.Table}
	url := testdb.URL(t)
	require.NoError(t, outbox.Migrate(t.Context(), testdb.Open(t, url), schema))
	fill := strings.NewReplacer("{schema}", pgx.Identifier{schema.Name}.Sanitize(), "{outbox}", names.Relation("outbox"),
		"{dead}", names.Relation("dead"), "{inbox}", names.Relation("inbox"), "{migrations}", names.Relation("migrations"),
		"{doorbell}", names.Relation("doorbell"), "{sequence}", names.Relation("sequence"),
		"{sequence_literal}", quote(names.Relation("sequence")), "{doorbell_literal}", quote(names.Relation("doorbell")))
	statements := reflect.ValueOf(pgsql.Render(names))
	for _, role := range everybody {
		t.Run(role.String(), func(t *testing.T) {
			pool := grantedPool(t, url, schema, role)
			for i := range statements.NumField() {
				name := statements.Type().Field(i).Name
				allowed, said := ofTheLibrary[name]
				require.True(t, said, "say which roles may execute the statement %s", name)
				if slices.Contains([]string{"Insert", "InsertOne", "SetBell"}, name) {
					continue // of NULL they touch no sequence; see below
				}
				require.Equal(t, slices.Contains(allowed, role), permitted(t, pool, statements.Field(i).String()), name)
			}
			for statement, allowed := range ofAnyone {
				require.Equal(t, slices.Contains(allowed, role), permitted(t, pool, fill.Replace(statement)), statement)
			}
		})
	}
}

func TestRoleWithoutGrantsReachesNothing(t *testing.T) {
	t.Parallel()
	schema := outbox.Schema{Name: "shop"}
	url := testdb.URL(t)
	require.NoError(t, outbox.Migrate(t.Context(), testdb.Open(t, url), schema))
	pool := grantedPool(t, url, schema, nobodyYet)
	statements := reflect.ValueOf(pgsql.Render(pgsql.Names{Schema: "shop", Table: "outbox"}))
	for name, allowed := range ofTheLibrary {
		if name == "SetBell" {
			continue // of NULL it touches no sequence
		}
		require.Equal(t, len(allowed) == len(everybody), permitted(t, pool, statements.FieldByName(name).String()), name)
	}
	err := outbox.CheckSchema(t.Context(), pool, schema)
	require.ErrorIs(t, err, outbox.ErrSchemaVersion)
	require.ErrorContains(t, err, `GRANT SELECT, UPDATE, DELETE ON TABLE "shop"."outbox" TO `)
}

func TestGrantsRefuseWhatTheyCannotMean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role    outbox.Role
		grantee string
		says    string
	}{
		{outbox.Role(9), "app", "Role(9)"},
		{outbox.Role(0), "app", "RoleWriter"},
		{writer, "", "grantee"},
		{writer, strings.Repeat("r", 64), "grantee"},
		{writer, "a\x00b", "NUL"},
	} {
		_, err := outbox.Grants(outbox.Schema{}, c.role, c.grantee)
		require.ErrorContains(t, err, c.says)
	}
}

func TestGrantsOfAWriterAreTheDocumentedOnes(t *testing.T) {
	t.Parallel()
	grants, err := outbox.Grants(outbox.Schema{}, writer, "app")
	require.NoError(t, err)
	require.Equal(t, `GRANT USAGE ON SCHEMA "public" TO "app";
GRANT INSERT ON TABLE "public"."outbox" TO "app";
GRANT USAGE ON SEQUENCE "public"."outbox_id_seq" TO "app";
`, grants)
}
