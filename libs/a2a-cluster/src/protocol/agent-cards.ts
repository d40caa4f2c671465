import { Injectable } from '@nestjs/common';
import { AgentCard, type AgentCardSignatureGenerator, type AgentInterface } from '@a2a-js/sdk';
import { duplicateInterfacesForLegacy } from '@a2a-js/sdk/compat/v0_3';
import type { ExtendedAgentCardProvider, ServerCallContext } from '@a2a-js/sdk/server';
import type { AgentCardInput } from '../options/card.options.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { AgentEndpoints } from './agent-endpoints.js';

/** The protocol version that this library serves. */
const PROTOCOL_VERSION = '1.0';

/** The agent's cards. */
@Injectable()
export class AgentCards {
  /** The card without its interfaces. Messages are checked against it, so it is made once. */
  readonly offered: Omit<AgentCard, 'supportedInterfaces'>;

  private readonly input: AgentCardInput;
  private readonly extended: AgentCard | ExtendedAgentCardProvider | undefined;
  private readonly sign: AgentCardSignatureGenerator | undefined;

  constructor(
    { agentCard, extendedAgentCard, cardSignature }: ResolvedOptions,
    private readonly endpoints: AgentEndpoints,
  ) {
    this.input = agentCard;
    this.extended = extendedAgentCard;
    this.sign = cardSignature;
    this.offered = completed(agentCard);
  }

  async card(): Promise<AgentCard> {
    const supportedInterfaces = reachedAt(this.input.supportedInterfaces, this.endpoints);
    // Made anew, since a generator of signatures may well write into what it is given.
    const card: AgentCard = { ...completed(this.input), supportedInterfaces };
    return this.sign ? this.sign(card) : card;
  }

  /** The card for this caller; undefined where none is configured. */
  async extendedCard(context: ServerCallContext): Promise<AgentCard | undefined> {
    if (!this.extended) return undefined;
    if (typeof this.extended !== 'function' && !context.user?.isAuthenticated) return this.card();
    const given = typeof this.extended === 'function' ? await this.extended(context) : this.extended;
    // One that was read from JSON lacks its empty lists, without which gRPC and version 0.3 cannot write it.
    const card: AgentCard = { ...AgentCard.fromJSON({}), ...given };
    const complete = { ...card, supportedInterfaces: reachedAt(card.supportedInterfaces, this.endpoints) };
    return this.sign ? this.sign(complete) : complete;
  }
}

function completed(input: AgentCardInput): AgentCard {
  const capabilities = { streaming: true, pushNotifications: false, extensions: [], ...input.capabilities };
  return { ...AgentCard.fromJSON({}), ...input, capabilities };
}

/** The interfaces that were given, or those that there are; for version 0.3 each once more, where it is served. */
function reachedAt(given: AgentInterface[] | undefined, endpoints: AgentEndpoints): AgentInterface[] {
  return duplicateInterfacesForLegacy(given?.length ? given : interfaces(endpoints), endpoints.legacyBindings);
}

function interfaces(endpoints: AgentEndpoints): AgentInterface[] {
  const { publicUrl, transports, grpc } = endpoints;
  const base = publicUrl?.replace(/\/+$/, '') ?? '';
  const urlOf = (path: string | false): string | undefined =>
    path === false ? undefined : `${base}${endpoints.prefixOf(path)}${path}`;
  const bindings = [
    { url: urlOf(transports.jsonRpc), protocolBinding: 'JSONRPC' },
    { url: urlOf(transports.rest), protocolBinding: 'HTTP+JSON' },
    { url: grpc, protocolBinding: 'GRPC' },
  ];
  return bindings.flatMap(({ url, protocolBinding }) =>
    url === undefined ? [] : [{ url, protocolBinding, tenant: '', protocolVersion: PROTOCOL_VERSION }],
  );
}
