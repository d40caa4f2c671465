import { type BlockList, isIP } from 'node:net';
import { Injectable } from '@nestjs/common';
import { blockList } from '../options/networks.js';
import { ResolvedOptions } from '../options/cluster.options.js';

/** Addresses that need `push.allow`: this host, private and link-local networks, and addresses of no host. */
const REFUSED_IPV4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16', // link-local, and the clouds' metadata
  '168.63.129.16/32', // Azure's platform, which is only to be reached from inside
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
];

/**
 * All but the global unicast addresses, and of those the ones that lead elsewhere: what transition addresses lead to
 * depends on the network in between.
 */
const REFUSED_IPV6 = ['::/3', '2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20', '4000::/2', '8000::/1'];

/**
 * Decides where push may go, by the address that is really connected to: a name says nothing, and may lead elsewhere
 * at the next look. What is allowed may be private, and may be spoken to without TLS.
 */
@Injectable()
export class PushTargetGuard {
  /** Two lists: a BlockList finds every IPv4 address in ::/3, as the mapped one that it could be written as. */
  private readonly refused = { ipv4: blockList(REFUSED_IPV4), ipv6: blockList(REFUSED_IPV6) };
  private readonly allowed: BlockList;
  private readonly allowsAny: boolean;

  constructor({ push: { allow } }: ResolvedOptions) {
    this.allowed = blockList(allow);
    this.allowsAny = allow.length > 0;
  }

  /** Why this address must not be connected to; undefined where it may be. */
  refusal(address: string, protocol: string): string | undefined {
    const plain = unwrapped(address);
    const family = isIP(plain);
    if (family === 0) return 'it has no IP address';
    const type = family === 4 ? 'ipv4' : 'ipv6';
    if (this.allowed.check(plain, type)) return undefined;
    if (this.refused[type].check(plain, type)) return 'it leads into a private or reserved network (push.allow)';
    return protocol === 'https:' ? undefined : 'only https is allowed there (push.allow)';
  }

  /** Judges a URL without looking its name up. */
  refusalOfUrl({ protocol, hostname }: URL): string | undefined {
    const host = hostname.replace(/^\[|\]$/g, '');
    if (isIP(host) !== 0) return this.refusal(host, protocol);
    return protocol === 'https:' || this.allowsAny ? undefined : 'only https is allowed (push.allow)';
  }
}

/** The IPv4 address inside of one that is mapped (::ffff:) or translated (64:ff9b::/96): that is where it leads. */
function unwrapped(address: string): string {
  const host = address.replace(/%.*$/, ''); // the zone of a link-local address
  if (isIP(host) !== 6) return host;
  const groups = expanded(host);
  const prefix = groups.slice(0, 6).join(':');
  if (prefix !== '0:0:0:0:0:ffff' && prefix !== '64:ff9b:0:0:0:0') return host;
  const [high = 0, low = 0] = groups.slice(6).map((group) => Number.parseInt(group, 16));
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/** The eight groups of an IPv6 address, without leading zeros. */
function expanded(address: string): string[] {
  // URL knows all the ways to write one, and gives the one canonical form, without dots.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [head = '', tail] = canonical.split('::');
  const [before, after] = [head, tail ?? ''].map((part) => (part === '' ? [] : part.split(':')));
  if (tail === undefined) return before!;
  return [...before!, ...Array<string>(8 - before!.length - after!.length).fill('0'), ...after!];
}
