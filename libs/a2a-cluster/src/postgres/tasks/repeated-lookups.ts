import { Batcher } from '../connection/batcher.js';
import type { ClusterDatabase } from '../connection/cluster-database.js';
import { untilAnswered } from '../connection/repeatable.js';
import { allRepeatedStatement, type ReceiptTables } from './receipt-statements.js';
import type { MessageReceipt, TaskScope } from '../../tasks/task-store.js';

interface Lookup {
  scope: TaskScope;
  receipt: MessageReceipt;
}

/** One statement at a time, with so many messages at most: they are cheap, and the next ones gather meanwhile. */
const LIMITS = { atOnce: 1, maxItems: 200 };

/** Finds messages that were accepted before. A statement always begins after what it looks for was asked for. */
export class RepeatedLookups {
  private readonly batcher: Batcher<Lookup, number | undefined>;
  private readonly statement: ReturnType<typeof allRepeatedStatement>;

  constructor(
    private readonly database: ClusterDatabase,
    tables: ReceiptTables,
    private readonly agent: string,
  ) {
    this.statement = database.prepared(allRepeatedStatement(tables));
    this.batcher = new Batcher(
      {
        alone: async (lookup, timeoutMs) => (await this.look([lookup], timeoutMs)).get(0),
        together: (lookups, timeoutMs) => this.look(lookups, timeoutMs),
      },
      LIMITS,
    );
  }

  find(scope: TaskScope, receipt: MessageReceipt): Promise<number | undefined> {
    return untilAnswered(this.database, (timeoutMs) => this.batcher.ask({ scope, receipt }, timeoutMs));
  }

  private async look(lookups: readonly Lookup[], timeoutMs: number): Promise<Map<number, number | undefined>> {
    const params = {
      agent: this.agent,
      tenants: lookups.map(({ scope }) => scope.tenant),
      owners: lookups.map(({ scope }) => scope.owner),
      messageIds: lookups.map(({ receipt }) => receipt.messageId),
      fingerprints: lookups.map(({ receipt }) => receipt.fingerprint),
      windowsMs: lookups.map(({ receipt }) => receipt.windowMs),
    };
    const rows = await this.statement.run(this.database, params, { timeoutMs, lane: 'read' });
    const found = new Map(rows.map(({ at, taskNo }) => [at - 1, Number(taskNo)]));
    return new Map(lookups.map((_lookup, at) => [at, found.get(at)]));
  }
}
