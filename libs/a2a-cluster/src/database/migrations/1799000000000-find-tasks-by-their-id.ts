import type { MigrationInterface, QueryRunner } from 'typeorm';
import { TableUnique } from 'typeorm';
import { tableNaming } from './table-naming.js';

/** By its id first a task is found at the same cost however many its owner has, and whatever statistics there are. */
export class FindTasksByTheirId1799000000000 implements MigrationInterface {
  readonly name = 'FindTasksByTheirId1799000000000';

  up(queryRunner: QueryRunner): Promise<void> {
    return replaceUnique(queryRunner, ['task_id', 'tenant', 'owner']);
  }

  down(queryRunner: QueryRunner): Promise<void> {
    return replaceUnique(queryRunner, ['tenant', 'owner', 'task_id']);
  }
}

/** A constraint is named after its columns in whatever order, so the new one has the name of the old. */
async function replaceUnique(queryRunner: QueryRunner, columnNames: string[]): Promise<void> {
  const tasks = tableNaming(queryRunner.connection)('a2a_tasks');
  const name = queryRunner.connection.namingStrategy.uniqueConstraintName(tasks, columnNames);
  await queryRunner.dropUniqueConstraint(tasks, name);
  await queryRunner.createUniqueConstraint(tasks, new TableUnique({ name, columnNames }));
}
