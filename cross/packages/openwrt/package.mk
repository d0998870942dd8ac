# What both packages have in common. The init script is enabled by OpenWrt's own rules.

PKG_VERSION:=0.1.0
PKG_RELEASE:=1
PKG_LICENSE:=MIT
PKG_LICENSE_FILES:=LICENSE

# The project that this folder is part of.
OVERLAYKEY:=$(abspath $(CURDIR)/../../../..)

define Package/overlaykey/Default
  SECTION:=net
  CATEGORY:=Network
  SUBMENU:=VPN
  TITLE:=Keeps a device registered on its Tailscale or Headscale overlay
endef

define Package/$(PKG_NAME)/description
Where the control server has forgotten this device, overlaykey gets a fresh key and runs tailscale up.
endef

define Package/$(PKG_NAME)/conffiles
/etc/config/overlaykey
/etc/overlaykey/token
endef

# ROOT, BINARY; the same files as cross/install INIT=procd
define Package/overlaykey/install/Default
	$(INSTALL_DIR) $(1)/usr/sbin $(1)/etc/init.d $(1)/etc/config $(1)/etc/hotplug.d/ntp $(1)/lib/upgrade/keep.d
	$(INSTALL_DIR) $(1)/etc/overlaykey
	$(INSTALL_BIN) $(2) $(1)/usr/sbin/overlaykey
	$(INSTALL_BIN) $(OVERLAYKEY)/cross/init/procd/etc/init.d/overlaykey $(1)/etc/init.d/
	$(INSTALL_DATA) $(OVERLAYKEY)/cross/init/procd/etc/config/overlaykey $(1)/etc/config/
	$(INSTALL_DATA) $(OVERLAYKEY)/cross/init/procd/etc/hotplug.d/ntp/50-overlaykey $(1)/etc/hotplug.d/ntp/
	$(INSTALL_DATA) $(OVERLAYKEY)/cross/init/procd/lib/upgrade/keep.d/overlaykey $(1)/lib/upgrade/keep.d/
	ln -sf /var/etc/overlaykey.conf $(1)/etc/overlaykey/overlaykey.conf
endef
