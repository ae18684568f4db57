#!/bin/sh
# Create both databases if they are missing, then bring their schemas up to this server's version.
set -eu

schemas=/etc/temporal/schema/postgresql/v12

prepare() {
    database=$1
    versions=$2
    sql="temporal-sql-tool --plugin postgres12 --ep ${POSTGRES_SEEDS} -p ${DB_PORT} -u ${POSTGRES_USER} --db ${database}"
    # "already exists" is the normal answer on every start but the first.
    $sql create || echo "database ${database}: kept as it is"
    $sql setup-schema -v 0.0 || echo "schema of ${database}: kept as it is"
    $sql update-schema -d "${schemas}/${versions}/versioned"
}

prepare temporal temporal
prepare temporal_visibility visibility
