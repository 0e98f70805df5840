package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/cmd/outbox/internal/config"
	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// migrationsJSON are the migrations of one outbox.
type migrationsJSON struct {
	Name       string          `json:"name"`
	Table      string          `json:"table"`
	Fits       bool            `json:"fits"`
	Problem    string          `json:"problem,omitempty"`
	Migrations []migrationJSON `json:"migrations"`
}

type migrationJSON struct {
	Version  int    `json:"version"`
	Name     string `json:"name"`
	Optional bool   `json:"optional"`
	Applied  bool   `json:"applied"`
}

func (a *app) migrateStatus() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "Show which migrations are applied, and whether the tables fit", Args: cobra.NoArgs,
		Long: `Shows which migrations are applied, and whether this role can forward with the tables: that they are there, of this version,
and that it has the rights. It only reads. The exit code is 3 if something does not fit.`,
		Example: "  outbox migrate status --config outbox.yaml --json",
	}
	a.settings(c, tableSettings)
	a.selects(c)
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings, err := a.load(c.Context(), config.Input{Database: true})
		if err != nil {
			return err
		}
		return a.showMigrations(c.Context(), settings.Outboxes, *asJSON)
	}
	return c
}

func (a *app) showMigrations(ctx context.Context, outboxes []config.Outbox, asJSON bool) error {
	list := []migrationsJSON{}
	t := newTable("outbox", ">version", "migration", "state")
	var unfit error
	for _, o := range outboxes {
		one, problem, err := readMigrations(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", o.Name, err)
		}
		list, unfit = append(list, one), errors.Join(unfit, problem)
		for _, m := range one.Migrations {
			state := "missing"
			if m.Optional {
				state = "left out"
			}
			if m.Applied {
				state = "applied"
			}
			t.AppendRow(table.Row{o.Name, m.Version, m.Name, state})
		}
	}
	var err error
	if asJSON {
		err = a.printJSON(list)
	} else {
		err = a.print(t.Render() + "\n")
	}
	return errors.Join(err, unfit)
}

// readMigrations gives the migrations; problem is why the tables don't fit.
func readMigrations(ctx context.Context, o config.Outbox) (_ migrationsJSON, problem, err error) {
	schema := o.Forwarder.Schema
	result := migrationsJSON{Name: o.Name, Table: schema.String(), Migrations: []migrationJSON{}}
	pool, err := open(ctx, o, 1)
	if err != nil {
		return result, nil, err
	}
	defer pool.Close()
	if problem = outbox.CheckSchema(ctx, pool, schema); problem != nil && !errors.Is(problem, outbox.ErrSchemaVersion) {
		return result, nil, problem
	}
	if result.Fits = problem == nil; !result.Fits {
		result.Problem = problem.Error()
		problem = fmt.Errorf("%s: %w", o.Name, problem)
	}
	versions, err := applied(ctx, pool, schema)
	if err != nil {
		return result, problem, err
	}
	known, err := outbox.Migrations(schema)
	for _, m := range known {
		result.Migrations = append(result.Migrations, migrationJSON{m.Version, m.Name, m.Optional, slices.Contains(versions, m.Version)})
	}
	return result, problem, err
}

// applied gives the versions that are there; none if there are no tables.
func applied(ctx context.Context, pool *pgxpool.Pool, schema outbox.Schema) ([]int, error) {
	name, tableName := names(schema)
	statements := pgsql.Render(pgsql.Names{Schema: name, Table: tableName})
	var namespace, migrated bool
	if err := pool.QueryRow(ctx, statements.Installed).Scan(&namespace, &migrated); err != nil || !migrated {
		return nil, err
	}
	rows, err := pool.Query(ctx, statements.Versions)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int])
}
