import { type DispatchedEffect, type EffectContract, type Turn } from 'nestjs-a2a-cluster';
import type { Ledger, Receipt } from './ledger/ledger.service.js';
import type { CommandContext } from './command.context.js';
import { charge, transfer } from './ledger.commands.js';
import type { TurnPublisher } from './turn.publisher.js';

type Replay = EffectContract<Receipt>['replay'];

const RECEIPT: Receipt = { entry: 3, amount: 5 };

/** A turn that records the keys and contracts it is called with, and a ledger that knows the keys given. */
function contextWith(known: Readonly<Record<string, Receipt>> = {}) {
  const keys: string[] = [];
  const replays: Replay[] = [];
  const said: unknown[] = [];
  const turn = {
    effect: (key: string, { replay }: EffectContract<Receipt>) => {
      keys.push(key);
      replays.push(replay);
      return Promise.resolve(RECEIPT);
    },
    transaction: (_work: unknown, { key }: { key: string }) => {
      keys.push(key);
      return Promise.resolve(RECEIPT);
    },
    idempotencyKey: (name: string) => name,
  } as unknown as Turn;
  const publisher = { status: (_state: unknown, text: unknown) => said.push(text) } as unknown as TurnPublisher;
  const ledger = { find: (key: string) => Promise.resolve(known[key]) } as unknown as Ledger;
  const context: CommandContext = { turn, publisher, ledger, messageId: '1', deaf: false };
  return { context, keys, replays, said };
}

describe('charge and transfer', () => {
  it('name their effects by their position in the script, and say what the effect answered', async () => {
    const { context, keys, said } = contextWith();
    await charge({ name: 'charge', amount: 5, mode: 'never', takesMs: 0 }, 1, context);
    await charge({ name: 'charge', amount: 5, mode: 'never', takesMs: 0 }, 2, context);
    await transfer({ name: 'transfer', amount: 5, takesMs: 0 }, 3, context);
    expect(keys).toEqual(['charge-1', 'charge-2', 'transfer-3']);
    expect(said).toEqual(['charged 5 (entry 3)', 'charged 5 (entry 3)', 'transferred 5 (entry 3)']);
  });

  it.each(['never', 'idempotent'] as const)('hand the mode %s on', async (mode) => {
    const { context, replays } = contextWith();
    await charge({ name: 'charge', amount: 5, mode, takesMs: 0 }, 1, context);
    expect(replays).toEqual([mode]);
  });

  it('ask the ledger what became of a charge with the mode reconcile', async () => {
    const { context, replays } = contextWith({ accepted: RECEIPT });
    await charge({ name: 'charge', amount: 5, mode: 'reconcile', takesMs: 0 }, 1, context);
    const ask = replays[0] as Exclude<Replay, string>;
    const dispatched = (idempotencyKey: string) => ({ idempotencyKey }) as DispatchedEffect;
    expect(await ask(dispatched('accepted'))).toEqual({ outcome: 'succeeded', result: RECEIPT });
    expect(await ask(dispatched('lost'))).toEqual({ outcome: 'not_performed' });
  });
});
