import { AgentCard } from '@a2a-js/sdk';
import type { AgentCardSignatureGenerator } from '@a2a-js/sdk';
import type { ExtendedAgentCardProvider, ServerCallContext } from '@a2a-js/sdk/server';
import type { TransportPaths } from './transport-paths.js';

/** An agent card as options take it: what is left out is filled in or empty. */
export type AgentCardInput = Partial<AgentCard> & Pick<AgentCard, 'name' | 'description' | 'version'>;

/** The protocol version that this library serves. */
const PROTOCOL_VERSION = '1.0';

/** What the agent says of itself. */
export class AgentCards {
  private complete: AgentCard | undefined;

  constructor(
    private readonly input: AgentCardInput,
    private readonly extended: AgentCard | ExtendedAgentCardProvider | undefined,
    private readonly sign: AgentCardSignatureGenerator | undefined,
    /** Where the agent is reached; read when first needed, since the app's global prefix is set late. */
    private readonly endpoints: () => {
      publicUrl: string | undefined;
      prefixOf: (path: string) => string;
      transports: TransportPaths;
    },
  ) {}

  async card(): Promise<AgentCard> {
    this.complete ??= completed(this.input, this.endpoints());
    return this.sign ? this.sign(this.complete) : this.complete;
  }

  /** The card for this caller; undefined where none is configured. */
  async extendedCard(context: ServerCallContext): Promise<AgentCard | undefined> {
    if (!this.extended) return undefined;
    if (typeof this.extended !== 'function' && !context.user?.isAuthenticated) return this.card();
    const card = typeof this.extended === 'function' ? await this.extended(context) : this.extended;
    return this.sign ? this.sign(card) : card;
  }
}

function completed(
  input: AgentCardInput,
  endpoints: { publicUrl: string | undefined; prefixOf: (path: string) => string; transports: TransportPaths },
): AgentCard {
  const card: AgentCard = { ...AgentCard.fromJSON({}), ...input };
  const capabilities = { streaming: true, pushNotifications: false, extensions: [], ...input.capabilities };
  const supportedInterfaces = input.supportedInterfaces?.length ? input.supportedInterfaces : interfaces(endpoints);
  return { ...card, capabilities, supportedInterfaces };
}

function interfaces({
  publicUrl,
  prefixOf,
  transports,
}: {
  publicUrl: string | undefined;
  prefixOf: (path: string) => string;
  transports: TransportPaths;
}): AgentCard['supportedInterfaces'] {
  const base = publicUrl?.replace(/\/+$/, '') ?? '';
  const bindings = [
    { path: transports.jsonRpc, protocolBinding: 'JSONRPC' },
    { path: transports.rest, protocolBinding: 'HTTP+JSON' },
  ];
  return bindings.flatMap(({ path, protocolBinding }) =>
    path === false
      ? []
      : [{ url: `${base}${prefixOf(path)}${path}`, protocolBinding, tenant: '', protocolVersion: PROTOCOL_VERSION }],
  );
}
