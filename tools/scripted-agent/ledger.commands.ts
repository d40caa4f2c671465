import { TaskState } from '@a2a-js/sdk';
import type { EffectContract } from 'nestjs-a2a-cluster';
import type { Ledger, LedgerRequest, Receipt } from './ledger/ledger.service.js';
import type { CommandContext } from './command.context.js';
import type { Command } from './script.parser.js';

type Charge = Extract<Command, { name: 'charge' }>;
type Transfer = Extract<Command, { name: 'transfer' }>;

/**
 * Charges the ledger, an outside service: what a lost attempt began is treated as the mode says.
 *
 * @param position of the command in its script: it tells two charges apart, and is the same in every attempt
 */
export async function charge(command: Charge, position: number, context: CommandContext): Promise<void> {
  const { turn, publisher, ledger } = context;
  const { amount, mode, takesMs } = command;
  const contract = { replay: mode === 'reconcile' ? lookUpIn(ledger) : mode };
  const receipt = await turn.effect<Receipt>(`charge-${position}`, contract, ({ idempotencyKey, signal }) => {
    const request: LedgerRequest = { taskId: turn.taskId, idempotencyKey, amount, takesMs, signal };
    return ledger.charge(request, mode === 'idempotent');
  });
  publisher.status(TaskState.TASK_STATE_WORKING, `charged ${receipt.amount} (entry ${receipt.entry})`);
}

/** Transfers in the app's own database: a stale owner's transfer is rolled back, and none is done twice. */
export async function transfer(command: Transfer, position: number, context: CommandContext): Promise<void> {
  const { turn, publisher, ledger } = context;
  const { amount, takesMs } = command;
  const key = `transfer-${position}`;
  const idempotencyKey = turn.idempotencyKey(key);
  const request: LedgerRequest = { taskId: turn.taskId, idempotencyKey, amount, takesMs, signal: turn.signal };
  const receipt = await turn.transaction((manager) => ledger.transfer(manager, request), { key });
  publisher.status(TaskState.TASK_STATE_WORKING, `transferred ${receipt.amount} (entry ${receipt.entry})`);
}

/**
 * The ledger knows what it has accepted, but not what is still on its way to it: a replica that was frozen before it sent
 * may be charged beside the one that asked. Only a ledger that recognises the key is safe from that (`idempotent`).
 */
function lookUpIn(ledger: Ledger): Exclude<EffectContract<Receipt>['replay'], string> {
  return async ({ idempotencyKey }) => {
    const receipt = await ledger.find(idempotencyKey);
    return receipt === undefined ? { outcome: 'not_performed' } : { outcome: 'succeeded', result: receipt };
  };
}
