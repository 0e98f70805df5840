package pgsql_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

// each calls f with every statement's name and text.
func each(names pgsql.Names, f func(name, text string)) {
	v := reflect.ValueOf(pgsql.Render(names))
	for i := range v.NumField() {
		f(v.Type().Field(i).Name, v.Field(i).String())
	}
}

func TestEveryStatementFitsTheTablesUnderNastyNames(t *testing.T) {
	t.Parallel()
	for _, names := range nasty {
		pool := testdb.New(t)
		migrate(t, pool, names)
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		each(names, func(name, text string) {
			_, err := conn.Conn().Prepare(t.Context(), name, text)
			require.NoError(t, err, "%s\n%s", name, text)
		})
	}
}

func TestEveryFileIsAStatementAndLeavesNoPlaceholder(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(os.DirFS("statements"), "*.sql")
	require.NoError(t, err)
	used := map[string]bool{} // by one statement, or by one for each of its forms
	for i := range reflect.TypeFor[pgsql.Statements]().NumField() {
		used[reflect.TypeFor[pgsql.Statements]().Field(i).Tag.Get("sql")+".sql"] = true
	}
	require.ElementsMatch(t, files, slices.Collect(maps.Keys(used)))
	placeholder := regexp.MustCompile(`\{[a-z_]+\}`)
	names := pgsql.Names{Schema: "public", Table: "outbox"}
	each(names, func(name, text string) {
		require.NotEmpty(t, text, name)
		require.NotRegexp(t, placeholder, text, name)
		require.NotContains(t, text, "--", "comments stay at home: %s", name)
	})
	for _, m := range pgsql.Migrations(names) {
		require.NotRegexp(t, placeholder, m.Up+m.Down, m.Name)
	}
}

// A name with a line feed would end a comment.
func TestNoNameIsRenderedIntoAComment(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	comment := regexp.MustCompile(`--.*\{[a-z_]+\}`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotRegexp(t, comment, string(text), file)
	}
}

func TestStatementsNameNoTableWithoutItsSchema(t *testing.T) {
	t.Parallel()
	names := pgsql.Names{Schema: "the_schema", Table: "the_table"}
	texts := map[string]string{}
	each(names, func(name, text string) { texts[name] = text })
	for name, text := range texts {
		bare := strings.ReplaceAll(text, `"the_schema".`, "")
		unqualified := strings.Count(bare, `"the_table`) - strings.Count(text, `"the_schema"."the_table`)
		require.Zero(t, unqualified, name)
	}
}

// Whatever is in the names and in the values, the values take the place that is theirs.
func TestReceivingPutsItsValuesWhereTheyBelong(t *testing.T) {
	t.Parallel()
	odd := []string{"('', '', '')", `it's \ '' "x" $1 {inbox} -- /*`, "漢"}
	for _, names := range append(nasty, pgsql.Names{Schema: "('', '', '')", Table: "VALUES ('', '', '')"}) {
		pool := testdb.New(t)
		migrate(t, pool, names)
		s := pgsql.Render(names)
		for _, value := range odd {
			for range 2 { // a copy
				execute(t, pool, s.Receiving(value, value+"h", value+"m"))
			}
			execute(t, pool, s.Receive, value, value+"h", value+"m")
			require.Equal(t, 1, scan[int](t, pool, "SELECT count(*) FROM "+names.Relation("inbox")+" WHERE consumer = $1 AND handler = $1 || 'h' AND message_id = $1 || 'm'", value))
		}
		require.Equal(t, len(odd), scan[int](t, pool, "SELECT count(*) FROM "+names.Relation("inbox")))
	}
}
