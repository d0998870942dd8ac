//! The CIDRs that a node advertises. Pure.

use std::net::IpAddr;

/// Makes a comma list of CIDRs one that `tailscale up --advertise-routes` takes: blanks gone, host bits
/// cleared (it refuses `192.0.2.1/24`, and the key would have been minted for nothing).
///
/// # Errors
/// Names the entry that is no CIDR.
pub fn normalise(list: &str) -> Result<String, String> {
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let routes: Vec<String> = entries.map(masked).collect::<Result<_, _>>()?;
    // tailscale takes a default route for IPv4 only together with the one for IPv6, and the other way round.
    let has = |route: &str| routes.iter().any(|other| other == route);
    match (has("0.0.0.0/0"), has("::/0")) {
        (true, false) => Err("0.0.0.0/0 needs ::/0 beside it".into()),
        (false, true) => Err("::/0 needs 0.0.0.0/0 beside it".into()),
        _ => Ok(routes.join(",")),
    }
}

fn masked(entry: &str) -> Result<String, String> {
    let bad = || format!("{entry:?} is no CIDR like 10.42.7.0/24 or fd00::/64");
    let (address, length) = entry.split_once('/').ok_or_else(bad)?;
    if !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad()); // parse would take +8
    }
    let length: u32 = length.parse().map_err(|_| bad())?;
    let address: IpAddr = address.parse().map_err(|_| bad())?;
    let network = match address {
        IpAddr::V4(v4) if length <= 32 => {
            IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(32 - length).unwrap_or(0)).into())
        }
        IpAddr::V6(v6) if length <= 128 => {
            IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(128 - length).unwrap_or(0)).into())
        }
        _ => return Err(bad()),
    };
    Ok(format!("{network}/{length}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_bits_are_cleared() {
        for (list, routes) in [
            ("", ""),
            (" 10.42.7.0/24 ", "10.42.7.0/24"),
            ("192.0.2.1/24,", "192.0.2.0/24"),
            ("10.0.0.1/32, fd00::1:2/64", "10.0.0.1/32,fd00::/64"),
            ("0.0.0.0/0,::/0", "0.0.0.0/0,::/0"),
            ("10.1.2.3/0,fd00::1/0", "0.0.0.0/0,::/0"),
            ("fd00::1/128", "fd00::1/128"),
        ] {
            assert_eq!(normalise(list).as_deref(), Ok(routes), "{list}");
        }
    }

    #[test]
    fn what_is_no_cidr_is_named() {
        for list in [
            "10.0.0.0/33",
            "fd00::/129",
            "10.0.0.0",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/-1",
            "host/8",
            "10.0.0.0/8 --ssh",
            "10.0.0.0/8;ls",
            "10.0.0.0/99999999999",
        ] {
            assert!(normalise(list).unwrap_err().contains("is no CIDR"), "{list}");
        }
        assert!(normalise("0.0.0.0/0").unwrap_err().contains("::/0"));
        assert!(normalise("::/0").unwrap_err().contains("0.0.0.0/0"));
    }
}
