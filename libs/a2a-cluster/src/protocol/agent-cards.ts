import { AgentCard } from '@a2a-js/sdk';
import type { AgentCardSignatureGenerator } from '@a2a-js/sdk';
import type { ExtendedAgentCardProvider, ServerCallContext } from '@a2a-js/sdk/server';
import type { TransportPaths } from './transport-paths.js';

/** An agent card as options take it: what is left out is filled in or empty. */
export type AgentCardInput = Partial<AgentCard> & Pick<AgentCard, 'name' | 'description' | 'version'>;

/** The protocol version that this library serves. */
const PROTOCOL_VERSION = '1.0';

/** Where the agent is reached. */
export interface AgentEndpoints {
  publicUrl: string | undefined;
  prefixOf: (path: string) => string;
  transports: TransportPaths;
  /** Where gRPC is; none where it is off. */
  grpc: string | undefined;
}

/** What the agent says of itself. */
export class AgentCards {
  constructor(
    private readonly input: AgentCardInput,
    private readonly extended: AgentCard | ExtendedAgentCardProvider | undefined,
    private readonly sign: AgentCardSignatureGenerator | undefined,
    /** Read when needed: the app's global prefix is set late, and gRPC's port is known once it listens. */
    private readonly endpoints: () => AgentEndpoints,
  ) {}

  async card(): Promise<AgentCard> {
    const card = completed(this.input, this.endpoints());
    return this.sign ? this.sign(card) : card;
  }

  /** The card for this caller; undefined where none is configured. */
  async extendedCard(context: ServerCallContext): Promise<AgentCard | undefined> {
    if (!this.extended) return undefined;
    if (typeof this.extended !== 'function' && !context.user?.isAuthenticated) return this.card();
    const given = typeof this.extended === 'function' ? await this.extended(context) : this.extended;
    // One that was read from JSON lacks its empty lists, without which gRPC cannot write it.
    const card = { ...AgentCard.fromJSON({}), ...given };
    return this.sign ? this.sign(card) : card;
  }
}

function completed(input: AgentCardInput, endpoints: AgentEndpoints): AgentCard {
  const card: AgentCard = { ...AgentCard.fromJSON({}), ...input };
  const capabilities = { streaming: true, pushNotifications: false, extensions: [], ...input.capabilities };
  const supportedInterfaces = input.supportedInterfaces?.length ? input.supportedInterfaces : interfaces(endpoints);
  return { ...card, capabilities, supportedInterfaces };
}

function interfaces({ publicUrl, prefixOf, transports, grpc }: AgentEndpoints): AgentCard['supportedInterfaces'] {
  const base = publicUrl?.replace(/\/+$/, '') ?? '';
  const urlOf = (path: string | false): string | undefined =>
    path === false ? undefined : `${base}${prefixOf(path)}${path}`;
  const bindings = [
    { url: urlOf(transports.jsonRpc), protocolBinding: 'JSONRPC' },
    { url: urlOf(transports.rest), protocolBinding: 'HTTP+JSON' },
    { url: grpc, protocolBinding: 'GRPC' },
  ];
  return bindings.flatMap(({ url, protocolBinding }) =>
    url === undefined ? [] : [{ url, protocolBinding, tenant: '', protocolVersion: PROTOCOL_VERSION }],
  );
}
