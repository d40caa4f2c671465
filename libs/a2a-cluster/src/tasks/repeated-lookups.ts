import type { ClusterDatabase } from '../database/cluster-database.js';
import { allRepeatedStatement, type ReceiptTables } from './receipt-statements.js';
import type { MessageReceipt, TaskScope } from './task-store.js';

interface Lookup {
  scope: TaskScope;
  receipt: MessageReceipt;
  resolve: (taskNo: number | undefined) => void;
  reject: (error: unknown) => void;
}

/** Messages in one statement. */
const MAX_LOOKUPS = 200;

/**
 * Finds messages that were accepted before. What is asked for while a statement is under way goes into the next one, all
 * of it together: under load a message costs no round trip of its own, and alone none waits. A statement always begins
 * after what it looks for was asked for.
 */
export class RepeatedLookups {
  private waiting: Lookup[] = [];
  private running = false;
  private readonly statement: string;

  constructor(
    private readonly database: ClusterDatabase,
    tables: ReceiptTables,
    private readonly agent: string,
  ) {
    this.statement = database.prepared(allRepeatedStatement(tables));
  }

  find(scope: TaskScope, receipt: MessageReceipt): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ scope, receipt, resolve, reject });
      if (!this.running) void this.run();
    });
  }

  private async run(): Promise<void> {
    this.running = true;
    while (this.waiting.length > 0) {
      const batch = this.waiting.splice(0, MAX_LOOKUPS);
      try {
        const found = await this.look(batch);
        batch.forEach(({ resolve }, at) => resolve(found.get(at + 1)));
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.running = false;
  }

  private async look(batch: readonly Lookup[]): Promise<Map<number, number>> {
    const rows = await this.database.query<{ at: number; taskNo: string }>(this.statement, [
      this.agent,
      batch.map(({ scope }) => scope.tenant),
      batch.map(({ scope }) => scope.owner),
      batch.map(({ receipt }) => receipt.messageId),
      batch.map(({ receipt }) => receipt.fingerprint),
      batch.map(({ receipt }) => receipt.windowMs),
    ]);
    return new Map(rows.map(({ at, taskNo }) => [at, Number(taskNo)]));
  }
}
