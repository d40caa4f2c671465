import pg from 'pg';

/** Ends what globalSetup began: afterwards there is no process, no directory and no database of this run. */
export default async function globalTeardown(): Promise<void> {
  const run = globalThis.a2aTestRun;
  if (!run) return;
  try {
    await dropLeftDatabases();
    await run.stopDatabase();
  } finally {
    await run.stopSweeping();
  }
}

/** Those of test files that failed before they could drop theirs: the server may not be ours. */
async function dropLeftDatabases(): Promise<void> {
  const { A2A_TEST_DATABASE_URL: url, A2A_TEST_RUN_ID: runId } = process.env;
  if (!url || !runId) return;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>(
      'SELECT datname AS name FROM pg_database WHERE starts_with(datname, $1)',
      [`a2a_test_${runId}_`],
    );
    for (const { name } of rows) await client.query(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
  } finally {
    await client.end();
  }
}
