import type { MigrationInterface, QueryRunner } from 'typeorm';
import { boundedStep } from './bounded-step.js';
import { quoted, tableNaming } from './table-naming.js';

/** By its id first a task is found at the same cost however many its owner has, and whatever statistics there are. */
export class FindTasksByTheirId1799000000000 implements MigrationInterface {
  readonly name = 'FindTasksByTheirId1799000000000';

  up(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, (runner) => reorderUnique(runner, ['task_id', 'tenant', 'owner']));
  }

  down(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, (runner) => reorderUnique(runner, ['tenant', 'owner', 'task_id']));
  }
}

/** In one statement, so that there is no moment without it. It locks the table for as long as the index takes to make. */
async function reorderUnique(queryRunner: QueryRunner, columns: string[]): Promise<void> {
  const { driver, namingStrategy } = queryRunner.connection;
  const tasks = tableNaming(queryRunner.connection)('a2a_tasks');
  const table = await queryRunner.getTable(tasks);
  const isSame = (names: string[]): boolean => [...names].sort().join() === [...columns].sort().join();
  const before = table?.uniques.find(({ columnNames }) => isSame(columnNames));
  if (!before?.name) throw new Error(`${tasks} has no unique constraint on ${columns.join(', ')}.`);
  const name = namingStrategy.uniqueConstraintName(tasks, columns);
  await queryRunner.query(
    `ALTER TABLE ${quoted(queryRunner, tasks)} DROP CONSTRAINT ${driver.escape(before.name)},
       ADD CONSTRAINT ${driver.escape(name)} UNIQUE (${columns.map((column) => driver.escape(column)).join(', ')})`,
  );
}
