package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// told gives what is wrong, without the file's path.
func told(t testing.TB, in Input) []string {
	t.Helper()
	_, err := Load(t.Context(), in)
	var found MistakesError
	require.ErrorAs(t, err, &found)
	lines := strings.Split(strings.ReplaceAll(found.Error(), in.File, "outbox.yaml"), "\n")
	require.Len(t, lines, len(found), "a line for each")
	return lines
}

func TestFiveMistakesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		`outbox.yaml:3:1: workres: there is no such setting; did you mean "workers"?`,
		`outbox.yaml:4:13: batch_size: "many" must be a whole number`,
		`outbox.yaml:6:14: retry.initial: -1s must be positive, or 0 for the default`,
		`outbox.yaml:8:9: broker: acks: "0" must be a whole number of at least 1`,
		`outbox.yaml:9:14: sweep_share: 7 must be above 0 and at most 1, or -1 for none`,
	}, told(t, input(t, `# a file
database: postgres://me@localhost/shop
workres: 3
batch_size: many
retry:
    initial: -1s

broker: fake://localhost?acks=0
sweep_share: 7
`)))
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		content string
		environ []string
		want    []string
	}{
		"nothing is set": {"", nil, []string{
			"outbox.yaml: database: it is missing; set it in the file, by --database or by OUTBOX_DATABASE",
			"outbox.yaml: broker: it is missing; set it in the file, by --broker or by OUTBOX_BROKER",
		}},
		"a variable": {sound, []string{"OUTBOX_WORKRES=3", "OUTBOX_BATCH_SIZE=x", "OUTBOX_WORKERS=65"}, []string{
			`OUTBOX_WORKRES: there is no such variable; did you mean "OUTBOX_WORKERS"?`,
			`OUTBOX_BATCH_SIZE: "x" must be a whole number`,
			`OUTBOX_WORKERS: 65 must be at most 64, the number of lanes`,
		}},
		"a value that something stronger replaces": {sound + "workers: x\n", []string{"OUTBOX_WORKERS=3"}, []string{
			`outbox.yaml:3:10: workers: "x" must be a whole number`,
		}},
		"wrong types": {sound + "workers: [1]\nbatch_size: {a: 1}\nretry: 3\npoll_only: yes\npass_timeout: 10\ntable:\nbatch_bytes: 5MB\n", nil, []string{
			`outbox.yaml:3:10: workers: it must be one value, not a list or a mapping`,
			`outbox.yaml:4:13: batch_size: it must be one value, not a list or a mapping`,
			`outbox.yaml:5:8: retry: it must be settings of the form name: value`,
			`outbox.yaml:6:12: poll_only: "yes" must be true or false`,
			`outbox.yaml:7:15: pass_timeout: "10" must be a time with its unit, as 500ms, 10s or 5m`,
			`outbox.yaml:8:7: table: it has no value; leave it out for the default`,
			`outbox.yaml:9:14: batch_bytes: "5MB" must be a number of bytes, as 33554432 or 32MiB`,
		}},
		"out of range": {sound + "workers: 65\nmax_per_second: -1\nretry:\n  multiplier: 0.5\n  jitter: 0\n  initial: 10m\n  max: 1m\nschema: pg_x\non_dead: stop\n", nil, []string{
			`outbox.yaml:3:10: workers: 65 must be at most 64, the number of lanes`,
			`outbox.yaml:4:17: max_per_second: -1 must be positive, or 0 for unlimited`,
			`outbox.yaml:6:15: retry.multiplier: 0.5 must be at least 1`,
			`outbox.yaml:7:11: retry.jitter: 0 would be the default; -1 is none`,
			`outbox.yaml:9:8: retry.max: 1m0s must not be below retry.initial, 10m0s`,
			`outbox.yaml:10:9: schema: "pg_x" begins with pg_, which PostgreSQL keeps for itself`,
			`outbox.yaml:11:10: on_dead: "stop" must be quarantine or continue`,
		}},
		"settings that exclude one another": {sound + "poll_only: true\nlisten_dsn: host=x\n", nil, []string{
			`outbox.yaml:4:13: listen_dsn: it is set, but poll_only does without LISTEN; set one of them`,
		}},
		"given twice": {sound + "workers: 3\nretry: {max: 1m, max: 2m}\nworkers: 4\n", nil, []string{
			`outbox.yaml:4:18: retry.max: it is given twice, first in line 4`,
			`outbox.yaml:5:1: workers: it is given twice, first in line 3`,
		}},
		"a name from a mapping": {sound + "max_attempts: 3\n", nil, []string{
			`outbox.yaml:3:1: max_attempts: there is no such setting; did you mean "retry.max_attempts"?`,
		}},
		"outboxes that are the same": {sound + "outboxes:\n  - table: a\n  - table: b\n    name: public.a\n  - workers: 3\n    table: a\n", nil, []string{
			`outbox.yaml:6:11: name: the outbox in line 4 has the name "public.a" too`,
			`outbox.yaml:7:5: it is the same table in the same database as that in line 4; set table or schema`,
		}},
		"what is the process's": {sound + "outboxes:\n  - http: \":1\"\n    log_levl: x\n", nil, []string{
			`outbox.yaml:4:5: http: it is for the whole process; put it at the top level`,
			`outbox.yaml:5:5: log_levl: there is no such setting`,
		}},
		"outboxes that are no list":   {sound + "outboxes: 3\n", nil, []string{`outbox.yaml:3:11: outboxes: it must be a list, each entry with the settings of one outbox`}},
		"an empty list":               {sound + "outboxes: []\n", nil, []string{`outbox.yaml:3:11: outboxes: it must be a list, each entry with the settings of one outbox`}},
		"an entry that is no mapping": {sound + "outboxes:\n  - orders\n", nil, []string{`outbox.yaml:4:5: it must be settings of the form name: value`}},
		"a shared mistake is told once": {sound + "batch_size: -1\noutboxes:\n  - table: a\n  - table: b\n", nil, []string{
			`outbox.yaml:3:13: batch_size: -1 must be positive, or 0 for the default`,
		}},
		"a scheme that no driver opens": {"database: host=x\nbroker: kafak://localhost\n", nil, []string{
			`outbox.yaml:2:9: broker: no driver for "kafak" URLs; known are fake`,
		}},
		"several mistakes in a URL": {"database: host=x\nbroker: fake://:1?acks=x&b=1\n", nil, []string{
			`outbox.yaml:2:9: broker: host: an address must be of the form host:port, an IPv6 one of the form [::1]:port`,
			`outbox.yaml:2:9: broker: acks: "x" must be a whole number of at least 1`,
			`outbox.yaml:2:9: broker: b: there is no such parameter`,
		}},
		"a variable that is not there": {"database: postgres://${HOST}/x\nbroker: fake://localhost\n", nil, []string{
			`outbox.yaml:1:11: database: the environment has no HOST`,
		}},
		"anchors":       {sound + "workers: &a 3\nbatch_size: *a\n", nil, []string{`outbox.yaml:3:10: workers: anchors and aliases are not read; what outboxes share stands at the top level`, `outbox.yaml:4:13: batch_size: anchors and aliases are not read; what outboxes share stands at the top level`}},
		"two documents": {sound + "---\nworkers: 3\n", nil, []string{`outbox.yaml:4:1: there may be only one document in the file`}},
		"no mapping":    {"hello\n", nil, []string{`outbox.yaml:1:1: it must be settings of the form name: value`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(t, test.content, test.environ...)
			found := told(t, in)
			for _, want := range test.want {
				require.Contains(t, found, want)
			}
			if name != "no mapping" { // then database and broker are missing too
				require.Len(t, found, len(test.want), "%q", found)
			}
		})
	}
}

func TestWhatIsNoYAMLIsToldWhere(t *testing.T) {
	t.Parallel()
	found := told(t, input(t, sound+"retry: {max: 3\nworkers: 3\n"))
	require.Equal(t, []string{"outbox.yaml:4:1: it is no YAML: ',' or '}' must be specified"}, found)
}

func TestAFileThatIsNotThere(t *testing.T) {
	t.Parallel()
	in := input(t, "")
	in.File += ".missing"
	require.Equal(t, []string{"outbox.yaml: it can't be read: no such file or directory"}, told(t, in))
}

// No text may contain a part of a password, wherever it stands and whatever is wrong with it.
func TestMistakesHaveNoPasswords(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"postgres://me:s3cr3t-word@localhost:port/x", "postgres://me:s3cr3t/word@localhost/x", "postgres://me:s3cr3t#word@localhost/x",
		"postgres://me:s3cr3t%word@localhost/x", "postgres://me:s3cr3t?word@localhost/x", "postgres://me:s3cr3t:word@localhost:x/x",
		"postgres://me:s3cr3t@word@localhost:x/x", "postgres://me:s3cr3t[word@localhost/x", "postgres://me:s3cr3t word@localhost/x",
		"postgres://localhost/x?password=s3cr3t&sslmode=word", "mysql://me:s3cr3t@localhost", "host=x password=s3cr3t sslmode=word",
		"host=x password='s3cr3t", "password=s3cr3t word", "me:s3cr3t@word", "host=x password=s3cr3t port=word", "s3cr3t",
		"postgres://me:s3cr3t@localhost/x?pool_max_conns=word", "postgres://me@localhost/x?connect_timeout=s3cr3t", "host=x pool_max_conns=s3cr3t",
		"postgres://me:s3cr3t@localhost/x?target_session_attrs=word", "postgres://me:s3cr3t@localhost/x?sslrootcert=/word",
	} {
		for _, key := range []string{"database", "listen_dsn"} {
			in := input(t, "broker: fake://localhost\n"+key+": \""+address+"\"\n")
			in.Database = false
			_, err := Load(t.Context(), in)
			require.Error(t, err, address)
			found := told(t, in)
			require.Len(t, found, 1, address)
			require.NotContains(t, found[0], "s3cr3t", address)
			require.Contains(t, found[0], "outbox.yaml:2:"+map[string]string{"database": "11", "listen_dsn": "13"}[key]+": "+key+": ")
		}
	}
	for _, address := range []string{
		"fake://me:s3cr3t@", "fake://me:s3cr3t@localhost:port:x", "other://me:s3cr3t@x", "fake://me:s3cr3t%zz@localhost",
		"fake://me:s3cr3t@localhost?acks=0", "s3cr3t", "fake://me:s3cr3t/@:",
	} {
		in := input(t, "database: host=x\nbroker: \""+address+"\"\n")
		_, err := Load(t.Context(), in)
		if err != nil {
			require.NotContains(t, err.Error(), "s3cr3t", address)
		}
	}
}
