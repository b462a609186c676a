CREATE TABLE results (
    key TEXT PRIMARY KEY, description TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    "ACC" REAL, "NMI" REAL, "Purity" REAL, "F-score" REAL, "ARI" REAL,
    n_iter INTEGER, converged INTEGER, warnings TEXT NOT NULL, error TEXT,
    seconds REAL NOT NULL, transform_seconds REAL, finished REAL NOT NULL, environment TEXT NOT NULL
);
CREATE TABLE claims (
    key TEXT PRIMARY KEY, holder TEXT NOT NULL, host TEXT NOT NULL, process INTEGER NOT NULL, heartbeat REAL NOT NULL
);
CREATE TABLE plans (
    name TEXT PRIMARY KEY, text TEXT NOT NULL, seed INTEGER NOT NULL, datasets TEXT NOT NULL, command TEXT NOT NULL,
    started REAL NOT NULL
);
