import { BlockList, isIP } from 'node:net';
import { NetworkFormatError } from '../errors/network-format.error.js';

/** A list of these networks, given as CIDR such as `10.0.0.0/8` or `fd00::/8`. Throws {@link NetworkFormatError}. */
export function blockList(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [, address = '', bits = ''] = /^([^/]+)\/(\d{1,3})$/.exec(network) ?? [];
    const family = isIP(address);
    if (family === 0 || Number(bits) > (family === 4 ? 32 : 128)) throw new NetworkFormatError(network);
    list.addSubnet(address, Number(bits), family === 4 ? 'ipv4' : 'ipv6');
  }
  return list;
}
