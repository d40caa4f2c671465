import type { MigrationInterface, QueryRunner } from 'typeorm';
import { TableColumn } from 'typeorm';
import { boundedStep } from './bounded-step.js';
import { tableNaming } from './table-naming.js';

const COLUMNS = [
  { name: 'head', type: 'text' },
  { name: 'head_version', type: 'integer' },
];

/**
 * What ListTasks shows of a task beside its history and artifacts. Tasks from before have none, and get one with their
 * next status. Columns without a default cost no rewrite of the table.
 */
export class AddTaskHeads1801000000000 implements MigrationInterface {
  readonly name = 'AddTaskHeads1801000000000';

  up(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, async () => {
      const tasks = tableNaming(queryRunner.connection)('a2a_tasks');
      for (const column of COLUMNS)
        await queryRunner.addColumn(tasks, new TableColumn({ ...column, isNullable: true }));
    });
  }

  down(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, async () => {
      const tasks = tableNaming(queryRunner.connection)('a2a_tasks');
      for (const { name } of COLUMNS) await queryRunner.dropColumn(tasks, name);
    });
  }
}
