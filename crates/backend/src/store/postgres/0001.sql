-- Keys, ids, hashes and signed forms are their raw bytes; bytes and seconds are below 2^63, larger ones are kept as 2^63 - 1.
CREATE TABLE quell.invitations (
    hash        BYTEA    PRIMARY KEY,
    role        SMALLINT NOT NULL,
    uses_left   BIGINT   NOT NULL,
    expires_s   BIGINT   NOT NULL,
    quota_bytes BIGINT
);
CREATE TABLE quell.accounts (
    key         BYTEA    PRIMARY KEY,
    role        SMALLINT NOT NULL,
    name        TEXT     NOT NULL,
    addresses   TEXT[]   NOT NULL,
    enrolled_s  BIGINT   NOT NULL,
    is_banned   BOOLEAN  NOT NULL,
    quota_bytes BIGINT,
    heartbeat_s BIGINT   NOT NULL
);
-- Apart from accounts: each receipt writes two of them, and nobody who settles waits for one who issues.
CREATE TABLE quell.sums (
    key           BYTEA  PRIMARY KEY,
    settled_bytes BIGINT NOT NULL
);
CREATE TABLE quell.contracts (
    id       BYTEA  PRIMARY KEY,
    account  BYTEA,
    provider BYTEA  NOT NULL,
    allowed  BIGINT NOT NULL,
    ends_s   BIGINT NOT NULL,
    settled  BIGINT NOT NULL,
    form     BYTEA  NOT NULL,
    receipt  BYTEA
);
CREATE INDEX contracts_open ON quell.contracts (account, ends_s) WHERE settled < allowed;
CREATE INDEX contracts_ends ON quell.contracts (ends_s, id);
-- One row: up to which end contracts were forgotten.
CREATE TABLE quell.forgotten (
    one      BOOLEAN PRIMARY KEY CHECK (one),
    before_s BIGINT  NOT NULL
);
INSERT INTO quell.forgotten VALUES (TRUE, 0);
