import type { MigrationInterface, QueryRunner } from 'typeorm';

const UP = [
  'CREATE SCHEMA ledger',
  `CREATE TABLE ledger.dispatch_attempts (
     attempt_no integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
     task_id text NOT NULL,
     idempotency_key text NOT NULL,
     recorded_at timestamptz NOT NULL DEFAULT clock_timestamp()
   )`,
  `CREATE TABLE ledger.entries (
     entry_no integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
     task_id text NOT NULL,
     idempotency_key text NOT NULL,
     once boolean NOT NULL,
     account text NOT NULL,
     amount integer NOT NULL,
     recorded_at timestamptz NOT NULL DEFAULT clock_timestamp()
   )`,
  // Who asks for it is charged once for a key, however often the request comes.
  'CREATE UNIQUE INDEX entries_once ON ledger.entries (idempotency_key) WHERE once',
];

/** The tables of the ledger, in a schema of their own. */
export class CreateLedger1796000060000 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    for (const statement of UP) await runner.query(statement);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query('DROP SCHEMA ledger CASCADE');
  }
}
