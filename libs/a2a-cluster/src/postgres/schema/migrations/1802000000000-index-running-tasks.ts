import type { MigrationInterface, QueryRunner } from 'typeorm';
import { TableIndex } from 'typeorm';
import { boundedStep } from './bounded-step.js';
import { tableNaming } from './table-naming.js';

const COLUMNS = ['agent', 'state_since'];
const RUNNING =
  "state NOT IN ('TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED', " +
  "'TASK_STATE_INPUT_REQUIRED', 'TASK_STATE_AUTH_REQUIRED')";

/** A replica that starts looks for running tasks without a lease: few among all that there are. */
export class IndexRunningTasks1802000000000 implements MigrationInterface {
  readonly name = 'IndexRunningTasks1802000000000';

  up(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, async () => {
      const tasks = tableNaming(queryRunner.connection)('a2a_tasks');
      await queryRunner.createIndex(tasks, new TableIndex({ columnNames: COLUMNS, where: RUNNING }));
    });
  }

  down(queryRunner: QueryRunner): Promise<void> {
    return boundedStep(queryRunner, async () => {
      const { namingStrategy } = queryRunner.connection;
      const tasks = tableNaming(queryRunner.connection)('a2a_tasks');
      await queryRunner.dropIndex(tasks, namingStrategy.indexName(tasks, COLUMNS, RUNNING));
    });
  }
}
