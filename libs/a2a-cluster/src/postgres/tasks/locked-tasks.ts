import type { SqlExecutor } from '../connection/statement.js';
import type { TaskScope } from '../../tasks/task-scope.js';
import type { DecisionRow } from './task-rows.js';
import type { TaskStatements } from './task-statements.js';

/** Decides about a task under its row lock. The lock comes first; the statements after it see everything before it. */
export class LockedTasks {
  constructor(
    private readonly sql: TaskStatements,
    private readonly agent: string,
  ) {}

  /** Locks a task and reads it with its lease; undefined where there is none. */
  async read(tx: SqlExecutor, which: TaskScope | number): Promise<DecisionRow | undefined> {
    const [locked] =
      typeof which === 'number'
        ? await this.sql.lockByNo.run(tx, { taskNo: which })
        : await this.sql.lock.run(tx, { ...which, agent: this.agent });
    if (!locked) return undefined;
    const [row] = await this.sql.decide.run(tx, locked);
    return row;
  }

  /** The version that a commit has led to, where it was done after this version; else null. */
  async doneVersion(tx: SqlExecutor, taskNo: number, commitId: string, after: number): Promise<number | null> {
    const [row] = await this.sql.commitDone.run(tx, { taskNo, commitId, after });
    return row?.version ?? null;
  }
}
