import { EffectStore } from './effect-store.js';

/**
 * The ledger of effects with the leases about it, which all turns use. The same as the {@link EffectStore} or around
 * it.
 */
export abstract class LeasedEffectStore extends EffectStore {}
