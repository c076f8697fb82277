"""Operations that become a part of others."""
