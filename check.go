package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-outbox/watermill-outbox/internal/pgsql"
)

// CheckSchema says whether a forwarder can work with the tables as this role: that they are there, of this library's
// version, not changed in a way that would lose messages, and that the role may do what it must and sees all rows. It
// only reads. A Forwarder calls it at start.
//
// A verdict is ErrSchemaVersion with all problems and what to do about each; any other error says that the check could
// not be made.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool, schema Schema) error {
	if err := given(ctx, pool); err != nil {
		return err
	}
	_, err := inspectSchema(ctx, pool, schema)
	return err
}

// schemaInfo is what a forwarder must know about its tables.
type schemaInfo struct {
	doorbell bool // the trigger is there and enabled
}

// inspectSchema is CheckSchema that also tells what is there.
func inspectSchema(ctx context.Context, conn pgxQuerier, schema Schema) (schemaInfo, error) {
	return inspectSchemaAs(ctx, pgxDatabase{conn}, schema, RoleForwarder)
}

// inspectSchemaAs checks for what another role needs, with any driver.
func inspectSchemaAs(ctx context.Context, db database, schema Schema, role Role) (schemaInfo, error) {
	if err := schema.Validate(); err != nil {
		return schemaInfo{}, err
	}
	i := inspection{schema: schema, names: schema.names(), statements: pgsql.Render(schema.names())}
	if err := i.run(ctx, db, role); err != nil {
		return schemaInfo{}, fmt.Errorf("outbox: checking %s: %w", schema, err)
	}
	if len(i.problems) > 0 {
		return schemaInfo{}, fmt.Errorf("%w: %s", ErrSchemaVersion, strings.Join(i.problems, "; "))
	}
	return i.info, nil
}

// inspection collects what is wrong.
type inspection struct {
	schema     Schema
	names      pgsql.Names
	statements pgsql.Statements
	info       schemaInfo
	problems   []string
}

// problem adds one, once.
func (i *inspection) problem(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(i.problems, text) {
		i.problems = append(i.problems, text)
	}
}

func (i *inspection) run(ctx context.Context, db database, role Role) error {
	var namespace, migrated bool
	err := db.query(ctx, i.statements.Installed, nil, func(scan func(...any) error) error { return scan(&namespace, &migrated) })
	if err != nil {
		return err
	}
	if !migrated {
		i.problem("%s is not there: run Migrate, or the SQL that Migrations gives", i.names.Relation("migrations"))
		return nil
	}
	if err := i.checkSettings(ctx, db); err != nil {
		return err
	}
	if readable, err := i.checkPrivileges(ctx, db, role); err != nil || !readable {
		return err
	}
	return i.checkVersions(ctx, db)
}

// checkSettings looks at the sequence and the doorbell.
func (i *inspection) checkSettings(ctx context.Context, db database) error {
	return db.query(ctx, i.statements.Inspect, nil, func(scan func(...any) error) error {
		var encoding string
		var increment, cache int64
		var cycle bool
		if err := scan(&encoding, &increment, &cache, &cycle, &i.info.doorbell); err != nil {
			return err
		}
		if encoding != "UTF8" {
			i.problem("the database has the encoding %s, so that clients would disagree about keys: use one with UTF8", encoding)
		}
		if increment != 1 || cache != 1 || cycle {
			i.problem("the sequence %[1]s has INCREMENT %[2]d, CACHE %[3]d, CYCLE %[4]t, so that messages would be lost or overtaken: "+
				"ALTER SEQUENCE %[1]s INCREMENT 1 CACHE 1 NO CYCLE", i.names.Relation("sequence"), increment, cache, cycle)
		}
		return nil
	})
}

// checkPrivileges looks at what the role may do, and at whether all relations are there, logged, and shown to it in
// full. It says whether the versions can be read.
func (i *inspection) checkPrivileges(ctx context.Context, db database, role Role) (readable bool, err error) {
	needs := i.names.Needs(pgsql.Role(role), i.info.doorbell)
	asked, err := json.Marshal(needs)
	if err != nil {
		return false, err
	}
	var user string
	met := map[pgsql.Need]bool{}
	readable = true
	err = db.query(ctx, i.statements.Privileges, []any{string(asked)}, func(scan func(...any) error) error {
		var need pgsql.Need
		var there, granted, unlogged, rowSecurity bool
		if err := scan(&need.Kind, &need.Name, &need.Privilege, &there, &granted, &unlogged, &rowSecurity, &user); err != nil {
			return err
		}
		object := strings.ToLower(need.Kind) + " " + i.names.Object(need)
		met[need] = granted || !there
		if !there {
			i.problem("the %s is not there: restore it, or drop the rest and run Migrate", object)
		}
		if !granted && (need.Kind == "SCHEMA" || i.names.Object(need) == i.names.Relation("migrations")) {
			readable = false
		}
		if unlogged {
			i.problem("the %s is UNLOGGED and would be empty after a crash: ALTER %s %s SET LOGGED", object, need.Kind, i.names.Object(need))
		}
		if rowSecurity {
			i.problem("row-level security hides rows of the %s from the role %q: give it BYPASSRLS, or disable row-level security", object, user)
		}
		return nil
	})
	if lacking := slices.DeleteFunc(needs, func(need pgsql.Need) bool { return met[need] }); err == nil && len(lacking) > 0 {
		i.problem("the role %q lacks privileges: %s", user, strings.Join(i.names.Grants(lacking, user), " "))
	}
	return readable, err
}

func (i *inspection) checkVersions(ctx context.Context, db database) error {
	applied, err := readVersions(ctx, db, i.statements)
	if err != nil {
		return err
	}
	if missing := pgsql.MissingVersions(applied); len(missing) > 0 {
		i.problem("%s lacks migrations %v: run Migrate, or the SQL that Migrations gives", i.schema, missing)
	}
	if unknown := pgsql.UnknownVersions(applied); len(unknown) > 0 {
		i.problem("%s has migrations %v, which this library does not know: use a newer one", i.schema, unknown)
	}
	return nil
}
