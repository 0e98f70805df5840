package command

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// The forms of migrations.
const (
	formSQL     = "sql"     // one after the other
	formGoose   = "goose"   // with goose's annotations
	formMigrate = "migrate" // files for golang-migrate
)

func (a *app) migratePrint() *cobra.Command {
	c := &cobra.Command{
		Use: "print", Short: "Print the migrations as SQL, for other tools", Args: cobra.NoArgs,
		Long: `Prints the SQL of the migrations, or writes a file for each into a folder, for goose, Atlas, golang-migrate or people. The
SQL records what was applied, so that forward, and "migrate up" later, know. It needs no database.

The optional ones are printed as the settings say: the doorbell unless --no-doorbell, the topic index with --topic-index.`,
		Example: `  outbox migrate print --schema shop > outbox.sql
  outbox migrate print --format goose --dir migrations
  outbox migrate print --down`,
	}
	a.settings(c, named("schema", "table", "no_doorbell", "topic_index"))
	a.selects(c)
	form := c.Flags().String("format", formSQL, "sql, goose, or migrate for golang-migrate")
	folder := c.Flags().String("dir", "", "`folder` to write a file a migration to, instead of printing them")
	first := c.Flags().Int("first", 1, "`number` of the first file")
	down := c.Flags().Bool("down", false, "print how to take them back, which drops the tables with all that is in them")
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings, err := a.load(c.Context(), config.Input{})
		if err != nil {
			return err
		}
		switch {
		case !slices.Contains([]string{formSQL, formGoose, formMigrate}, *form):
			return usage(fmt.Sprintf("--format: %q must be sql, goose or migrate", *form))
		case *form != formSQL && *folder == "":
			return usage("--format " + *form + " needs --dir: these tools want a file for each migration")
		case *first < 1:
			return usage(fmt.Sprintf("--first: %d must be at least 1", *first))
		case *down && *folder != "":
			return usage("--down goes without --dir")
		}
		number := *first
		for _, o := range settings.Outboxes {
			steps, err := stepsOf(o.Forwarder.Schema)
			if err != nil {
				return err
			}
			if *folder == "" {
				err = a.print(script(steps, *down))
			} else {
				err = a.writeSteps(steps, *folder, *form, number)
			}
			if err != nil {
				return err
			}
			number += len(steps)
		}
		return nil
	}
	return c
}

// stepsOf are the migrations that the settings ask for. The first one makes the PostgreSQL schema too.
func stepsOf(schema outbox.Schema) ([]outbox.Migration, error) {
	steps, err := outbox.Migrations(schema)
	if err != nil {
		return nil, err
	}
	steps = slices.DeleteFunc(steps, func(m outbox.Migration) bool {
		return m.Version == pgsql.DoorbellVersion && schema.NoDoorbell || m.Version == pgsql.TopicIndexVersion && !schema.TopicIndex
	})
	if name, _ := names(schema); name != "public" {
		steps[0].SQL = "CREATE SCHEMA IF NOT EXISTS " + pgx.Identifier{name}.Sanitize() + ";\n\n" + steps[0].SQL
	}
	return steps, nil
}

// names of the schema and the table.
func names(schema outbox.Schema) (name, table string) {
	return cmp.Or(schema.Name, "public"), cmp.Or(schema.Table, "outbox")
}

func script(steps []outbox.Migration, down bool) string {
	var text strings.Builder
	if down {
		steps = slices.Clone(steps)
		slices.Reverse(steps)
	}
	for _, m := range steps {
		sql := m.SQL
		if down {
			sql = m.Down
		}
		fmt.Fprintf(&text, "-- Migration %d: %s\n\n%s\n", m.Version, m.Name, sql)
	}
	return text.String()
}

func (a *app) writeSteps(steps []outbox.Migration, folder, form string, number int) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	for i, m := range steps {
		stem := fmt.Sprintf("%05d_outbox_%s", number+i, m.Name)
		files := map[string]string{stem + ".sql": m.SQL}
		switch form {
		case formGoose:
			files[stem+".sql"] = goose(m)
		case formMigrate:
			files = map[string]string{stem + ".up.sql": m.SQL, stem + ".down.sql": m.Down}
		}
		for name, content := range files {
			if err := a.writeNew(filepath.Join(folder, name), content); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeNew writes a file, which must not be there: it may have been applied, or changed.
func (a *app) writeNew(path, content string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // the operator names the folder; others may read migrations
	if err != nil {
		return err
	}
	if _, err := file.WriteString(content); err != nil {
		_ = file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return a.print(path + "\n")
}

func goose(m outbox.Migration) string {
	block := func(direction, sql string) string {
		return "-- +goose " + direction + "\n-- +goose StatementBegin\n" + sql + "-- +goose StatementEnd\n"
	}
	return block("Up", m.SQL) + "\n" + block("Down", m.Down)
}
